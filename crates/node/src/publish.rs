//! Publishes the cards on the Node object: the inventory in an annotation for the scheduler extender,
//! totals in the status for kube-scheduler and for tools, and in another annotation what containers
//! still hold after their pods are gone or ended.
//!
//! Watches the agent's own Node, so that a recreated Node, or values that another client changed, are
//! corrected. Writes only what differs.

mod totals;

use std::time::Duration;

use futures::StreamExt;
use gpushare_core::{Card, Classes, HeldPod, NodeName, gpu, held, inventory, names};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::core::Status;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::cards::{Cards, sick};
use crate::offer::Offer;

const RETRY: Duration = Duration::from_secs(5);

/// What must be written to bring a Node up to date, as merge patches.
#[derive(Debug, Default, PartialEq)]
struct Changes {
    annotation: Option<Value>,
    status: Option<Value>,
}

/// What is published.
#[derive(Clone, Debug)]
pub struct Sources {
    pub cards: watch::Receiver<Cards>,
    /// `None` until it is first known.
    pub held: watch::Receiver<Option<Vec<HeldPod>>>,
}

/// Runs for ever.
pub async fn publish_for_ever(
    client: Client,
    name: NodeName,
    offer: Offer,
    sources: Sources,
    published: watch::Sender<bool>,
) {
    let Sources {
        mut cards,
        mut held,
    } = sources;
    let nodes: Api<Node> = Api::all(client);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let watch = || watcher(nodes.clone(), config.clone()).default_backoff();
    let mut events = std::pin::pin!(watch());
    let mut seen = Seen::default();
    let mut retry = false;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => seen.take(event),
                Some(Err(error)) => {
                    let unknown = answered(&error).and_then(unknown_token);
                    seen.refused |= unknown.is_some();
                    let error = unknown.unwrap_or_else(|| error.to_string());
                    tracing::warn!(%error, %name, "the watch of our Node broke, trying again");
                }
                None => return,
            },
            changed = cards.changed() => if changed.is_err() { return },
            changed = held.changed() => if changed.is_err() { return },
            () = sleep(RETRY), if retry || seen.refused => {
                seen.written = None;
                if seen.refused {
                    // A watch that continues shows nothing until the Node changes; a new one begins with a list.
                    events.set(watch());
                }
            }
        }
        let tell = |now: bool| {
            published.send_if_modified(|before| std::mem::replace(before, now) != now);
        };
        if seen.node.is_none() || seen.refused {
            tell(false);
        }
        let Some(node) = seen.current() else { continue };
        let mut changes = changes(node, &cards.borrow_and_update(), &offer);
        let held = annotate_held(node, held.borrow_and_update().as_deref(), &offer);
        changes.annotation = merged(changes.annotation, held);
        match write(&nodes, &name, &changes).await {
            Ok(None) => {
                tell(cards.borrow().known().is_some());
                retry = false;
            }
            Ok(written) => {
                tracing::info!(%name, "published the cards on our Node");
                seen.written = written.and_then(|node| node.metadata.resource_version);
                retry = true;
            }
            Err(error) => {
                let error = refusal(&error);
                tracing::warn!(%error, %name, "cannot publish the cards on our Node, trying again");
                tell(false);
                retry = true;
            }
        }
    }
}

/// Brings a Node up to date once, for cards without an agent: those of simulated nodes.
pub async fn publish_once(
    nodes: &Api<Node>,
    node: &Node,
    cards: &Cards,
    offer: &Offer,
) -> Result<(), kube::Error> {
    let name = NodeName::new(node.metadata.name.as_deref().unwrap_or_default());
    write(nodes, &name, &changes(node, cards, offer))
        .await
        .map(drop)
}

/// What the API server answered, with what to do if it no longer accepts our token.
fn refusal(error: &kube::Error) -> String {
    let unknown = answer(error).and_then(unknown_token);
    unknown.unwrap_or_else(|| error.to_string())
}

/// The refusal of a token that is no longer valid, with what to do; `None` for any other refusal.
fn unknown_token(status: &Status) -> Option<String> {
    (status.code == 401).then(|| {
        format!(
            "{}; the agent's token is not valid any more: one that is bound to a Node object ends with that object, so \
             give the agent one that is bound to its pod, as a DaemonSet does",
            status.message
        )
    })
}

/// What the API server answered, if it did.
fn answer(error: &kube::Error) -> Option<&Status> {
    match error {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

/// What the API server answered to a watch, if it did.
fn answered(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => answer(error),
        watcher::Error::WatchError(status) => Some(status),
        watcher::Error::NoResourceVersion => None,
    }
}

/// Our Node as the watch shows it.
#[derive(Default)]
struct Seen {
    node: Option<Node>,
    /// A new list has begun, and the Node has not appeared in it so far.
    missing: bool,
    /// The version of our own last write, until the watch has shown it. Until then, what the watch shows is older.
    written: Option<String>,
    /// The API server has refused our token since the Node was last shown, so the Node may have changed or be gone.
    refused: bool,
}

impl Seen {
    fn take(&mut self, event: Event<Node>) {
        match event {
            Event::Apply(node) => {
                if self.written == node.metadata.resource_version {
                    self.written = None;
                }
                self.node = Some(node);
                self.refused = false;
            }
            Event::Init => self.missing = true,
            Event::InitApply(node) => {
                *self = Self {
                    node: Some(node),
                    ..Self::default()
                }
            }
            Event::InitDone if !self.missing => {}
            // The Node was deleted, maybe while the watch was broken.
            Event::InitDone | Event::Delete(_) => *self = Self::default(),
        }
    }

    /// The Node, unless it is or may be out of date.
    fn current(&self) -> Option<&Node> {
        let current = self.written.is_none() && !self.refused;
        self.node.as_ref().filter(|_| current)
    }
}

/// The Node after the last write; `None` if there was nothing to write.
async fn write(
    nodes: &Api<Node>,
    name: &NodeName,
    changes: &Changes,
) -> Result<Option<Node>, kube::Error> {
    let params = PatchParams {
        field_manager: Some(totals::MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let mut written = None;
    if let Some(patch) = &changes.annotation {
        written = Some(
            nodes
                .patch(name.as_str(), &params, &Patch::Merge(patch))
                .await?,
        );
    }
    if let Some(patch) = &changes.status {
        let patch = Patch::Merge(patch);
        written = Some(nodes.patch_status(name.as_str(), &params, &patch).await?);
    }
    Ok(written)
}

fn changes(node: &Node, cards: &Cards, offer: &Offer) -> Changes {
    let classes = &offer.dialects.classes;
    match cards {
        Cards::Unknown => Changes::default(),
        Cards::Unreadable => Changes {
            annotation: close(node, classes),
            status: None,
        },
        Cards::Known(cards) => Changes {
            annotation: annotate(node, &inventory::encode(classes, cards)),
            // Sick cards are included: the kubelet itself derives allocatable from capacity.
            status: totals::patch(node, &offer.totals(cards)),
        },
    }
}

fn annotation(node: &Node) -> Option<&String> {
    node.metadata.annotations.as_ref()?.get(names::CARDS)
}

fn annotate(node: &Node, inventory: &str) -> Option<Value> {
    let differs = annotation(node).map(String::as_str) != Some(inventory);
    differs.then(|| json!({"metadata": {"annotations": {names::CARDS: inventory}}}))
}

/// The annotation for what is still held without a pod; it exists only while something is held.
fn annotate_held(node: &Node, held: Option<&[HeldPod]>, offer: &Offer) -> Option<Value> {
    let class = offer.dialects.classes.get(gpu::CLASS)?;
    let held = held?;
    let text = (!held.is_empty()).then(|| held::encode(class, held));
    let annotations = node.metadata.annotations.as_ref();
    let before = annotations.and_then(|all| all.get(names::HELD));
    let differs = before != text.as_ref();
    differs.then(|| json!({"metadata": {"annotations": {names::HELD: text}}}))
}

/// One patch of annotations that combines both.
fn merged(one: Option<Value>, other: Option<Value>) -> Option<Value> {
    let (Some(mut one), Some(other)) = (one.clone(), other.clone()) else {
        return one.or(other);
    };
    let annotations = |patch: &Value| patch.pointer("/metadata/annotations").cloned();
    if let (Some(Value::Object(into)), Some(Value::Object(from))) = (
        one.pointer_mut("/metadata/annotations"),
        annotations(&other),
    ) {
        into.extend(from);
    }
    Some(one)
}

/// Marks cards as sick that an earlier run of the agent published and this one cannot read: they take no new pods.
fn close(node: &Node, classes: &Classes) -> Option<Value> {
    let published = inventory::decode(classes, annotation(node)?).ok()?;
    let closed: Vec<Card> = published.iter().map(sick).collect();
    annotate(node, &inventory::encode(classes, &closed))
}

#[cfg(test)]
mod tests;
