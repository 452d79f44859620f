//! The two watches, of nodes and of pods, and reads of single pods where the watch is not enough.

use std::convert::Infallible;
use std::time::Duration;

use gpushare_books::{Finding, Followup, NodeFacts, PodEvent};
use gpushare_core::NodeName;
use gpushare_kube::bind::read_pod;
use gpushare_kube::call::CallError;
use gpushare_kube::convert::{self, PodFacts};
use gpushare_kube::fence::fence;
use gpushare_kube::slim;
use gpushare_kube::watch::{Index, Which, follow, follow_relisting};
use kube::Api;
use kube::runtime::watcher;

use super::Extender;
use gpushare_kube::PodRef;

/// Pause before an unanswered request about a pod is repeated.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How to find out what became of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Read,
    Fence,
}

/// The watch of pods leads here.
pub(crate) struct Pods<'a>(pub(crate) &'a Extender);

/// The watch of nodes leads here.
pub(crate) struct Nodes<'a>(pub(crate) &'a Extender);

impl Index<slim::Pod> for Pods<'_> {
    type Value = PodEvent;

    fn reduce(&self, pod: &slim::Pod) -> PodEvent {
        let mut facts = PodFacts::new(pod, &self.0.0.dialects);
        if let Ok(Some(ask)) = &mut facts.ask {
            *ask = self.0.0.asks.lock().shared(ask.clone());
        }
        PodEvent::of(facts)
    }

    fn apply(&self, pod: PodEvent) {
        let notice = pod.apply(&mut self.0.0.books.write());
        if let Some(notice) = notice {
            self.0.notify(notice);
        }
    }

    fn delete(&self, pod: PodEvent) {
        self.0.0.books.write().end_pod(pod.uid());
    }

    fn replace(&self, pods: Vec<PodEvent>) {
        let (to_read, notices) = PodEvent::replace(pods, &mut self.0.0.books.write());
        for notice in notices {
            self.0.notify(notice);
        }
        for pod in to_read {
            self.0.follow_up(pod, Followup::Read);
        }
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.0.0.metrics.watch_interrupted("pods");
        tracing::warn!(%error, "the watch of pods was interrupted; taking it up again");
    }
}

impl Index<slim::Node> for Nodes<'_> {
    type Value = NodeFacts;

    fn reduce(&self, node: &slim::Node) -> NodeFacts {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let classes = &self.0.0.dialects.classes;
        let cards = convert::cards(node, classes).unwrap_or_else(|error| {
            tracing::warn!(node = name, %error, "the node's cards cannot be used");
            None
        });
        // If what is still held cannot be read, the node offers no cards.
        let (cards, held) = match convert::held(node, classes) {
            Ok(held) => (cards.unwrap_or_default(), held),
            Err(error) => {
                tracing::warn!(node = name, %error, "the node's cards cannot be used");
                (Vec::new(), Vec::new())
            }
        };
        NodeFacts {
            name: NodeName::new(name),
            cards,
            held,
            allocatable: convert::allocatable(node),
        }
    }

    fn apply(&self, node: NodeFacts) {
        self.0.0.books.write().apply_node(node);
    }

    fn delete(&self, node: NodeFacts) {
        self.0.0.books.write().delete_node(node.name.as_str());
    }

    fn replace(&self, nodes: Vec<NodeFacts>) {
        let with_cards = nodes.iter().filter(|node| !node.cards.is_empty()).count();
        tracing::info!(nodes = nodes.len(), with_cards, "listed the nodes");
        self.0.0.books.write().replace_nodes(nodes);
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.0.0.metrics.watch_interrupted("nodes");
        tracing::warn!(%error, "the watch of nodes was interrupted; taking it up again");
    }
}

impl Extender {
    pub(super) async fn follow_nodes(self) -> Result<(), Infallible> {
        let nodes: Api<slim::Node> = Api::all(self.0.client.clone());
        let shutdown = self.0.tasks.shutdown();
        let index = Nodes(&self);
        shutdown
            .run_until_cancelled(follow(nodes, Which::All, &index))
            .await;
        Ok(())
    }

    /// Follows the pods, and opens binds in each term once the effects of earlier terms are known.
    ///
    /// Filter and prioritize do not wait for that: if they offer a card that is already taken, bind refuses it.
    pub(super) async fn follow_pods(self) -> Result<(), Infallible> {
        let pods: Api<slim::Pod> = Api::all(self.0.client.clone());
        let index = Pods(&self);
        let following = follow_relisting(pods, &index, self.0.leadership.terms(), |term| {
            self.open_when_fenced(term);
        });
        let shutdown = self.0.tasks.shutdown();
        shutdown.run_until_cancelled(following).await;
        Ok(())
    }

    /// Reads or fences the pod in the background, as needed after a bind or a list.
    pub(super) fn follow_up(&self, pod: PodRef, followup: Followup) {
        let by = match followup {
            Followup::Nothing => return,
            Followup::Read => Look::Read,
            Followup::Fence => Look::Fence,
        };
        let extender = self.clone();
        let work = async move { extender.find_out_until_answered(&pod, by).await };
        // After a restart all pods are listed and fenced, so shutdown need not wait for this.
        let shutdown = self.0.tasks.shutdown().clone();
        self.0
            .tasks
            .job(async move { shutdown.run_until_cancelled(work).await });
    }

    async fn find_out_until_answered(&self, pod: &PodRef, by: Look) {
        while let Err(error) = self.find_out(pod, by).await {
            tracing::warn!(%error, "what became of a pod's bind is not known yet; asking again");
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Reads a pod from the API server and brings the books up to date with it; `None` if the pod is gone.
    pub(super) async fn read(&self, pod: &PodRef) -> Result<Option<PodFacts>, CallError> {
        self.find_out(pod, Look::Read).await
    }

    /// As [`Self::read`], after a write that makes every earlier bind of the pod void.
    pub(super) async fn fence(&self, pod: &PodRef) -> Result<Option<PodFacts>, CallError> {
        self.find_out(pod, Look::Fence).await
    }

    async fn find_out(&self, pod: &PodRef, by: Look) -> Result<Option<PodFacts>, CallError> {
        let Self(shared) = self;
        loop {
            let read = shared.books.write().begin_read(&pod.uid);
            let answer = self.ask(pod, by).await;
            let mut books = shared.books.write();
            let verdict = match (answer, by) {
                (Ok(facts), Look::Read) => books.finish_read(&pod.uid, read, facts),
                (Ok(facts), Look::Fence) => books.finish_fence(&pod.uid, read, facts),
                (Err(error), _) => {
                    books.abandon_read(&pod.uid, read);
                    return Err(error);
                }
            };
            drop(books);
            match verdict {
                Finding::Stale => {}
                Finding::Fenced(facts) => {
                    self.follow_up(pod.clone(), Followup::Read);
                    return Ok(Some(*facts));
                }
                Finding::Gone => return Ok(None),
                Finding::Found(facts) => return Ok(Some(*facts)),
            }
        }
    }

    async fn ask(&self, pod: &PodRef, by: Look) -> Result<Option<PodFacts>, CallError> {
        let (client, dialects) = (&self.0.client, &self.0.dialects);
        match by {
            Look::Read => read_pod(client, dialects, &pod.namespace, &pod.name).await,
            Look::Fence => {
                let fenced = fence(client, dialects, pod).await;
                self.0.metrics.fenced(match &fenced {
                    Ok(Some(pod)) if pod.node.is_some() => "bound",
                    Ok(Some(_)) => "unbound",
                    Ok(None) => "gone",
                    Err(_) => "failed",
                });
                fenced
            }
        }
    }
}
