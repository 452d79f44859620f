//! Follows the pods of this node into [`NodeState`].

use std::sync::Arc;

use futures::StreamExt;
use gpushare_core::dialect::Dialects;
use gpushare_core::{NodeName, PodUid};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, ListSemantic, watcher};
use kube::{Api, Client};

use crate::state::NodeState;

/// Runs for ever; a broken watch is taken up again with backoff.
pub async fn follow_pods(
    client: Client,
    node: NodeName,
    dialects: Dialects,
    state: Arc<NodeState>,
) {
    let pods: Api<slim::Pod> = Api::all(client);
    let config = watcher::Config::default()
        .fields(&format!("spec.nodeName={node}"))
        .list_semantic(ListSemantic::MostRecent);
    let mut events = std::pin::pin!(watcher(pods, config).default_backoff());
    let facts = |pod: slim::Pod| PodFacts::new(&pod, &dialects);
    let mut listing = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(pod)) => state.apply(facts(pod)),
            Ok(Event::Delete(pod)) => {
                state.delete(&PodUid::new(pod.metadata.uid.unwrap_or_default()));
            }
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(pod)) => listing.push(facts(pod)),
            Ok(Event::InitDone) => state.reset(std::mem::take(&mut listing)),
            Err(error) => {
                tracing::warn!(%error, "the watch of this node's pods broke, trying again");
            }
        }
    }
}
