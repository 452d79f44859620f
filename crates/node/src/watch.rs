//! Watches the pods of this node and passes them to [`NodeState`].

use std::sync::Arc;

use gpushare_core::NodeName;
use gpushare_core::dialect::Dialects;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_kube::watch::{Index, Which, follow};
use kube::runtime::watcher;
use kube::{Api, Client};

use crate::state::NodeState;

struct Pods {
    dialects: Dialects,
    state: Arc<NodeState>,
}

impl Index<slim::Pod> for Pods {
    type Value = PodFacts;

    fn reduce(&self, pod: &slim::Pod) -> PodFacts {
        PodFacts::new(pod, &self.dialects)
    }

    fn apply(&self, pod: PodFacts) {
        self.state.apply(pod);
    }

    fn delete(&self, pod: PodFacts) {
        self.state.delete(&pod.uid);
    }

    fn replace(&self, pods: Vec<PodFacts>) {
        self.state.reset(pods);
    }

    fn interrupted(&self, error: &watcher::Error) {
        tracing::warn!(%error, "the watch of this node's pods broke, trying again");
    }
}

/// Runs for ever; a broken watch is resumed with backoff.
pub async fn follow_pods(
    client: Client,
    node: NodeName,
    dialects: Dialects,
    state: Arc<NodeState>,
) {
    let selector = format!("spec.nodeName={node}");
    let pods: Api<slim::Pod> = Api::all(client);
    follow(pods, Which::Fields(&selector), &Pods { dialects, state }).await;
}
