//! The watches of pods, nodes, budgets and namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpushare_core::PodUid;
use gpushare_core::card::Card;
use gpushare_daemon::Tasks;
use gpushare_kube::convert::Kubelet;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::kinds::Namespace;
use gpushare_kube::labels::Labels;
use gpushare_kube::watch::{Index, Kind, Which, follow, not_served};
use gpushare_kube::{convert, metering, slim};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};

use super::Timekeeper;
use super::view::{SeenPod, View};

impl Timekeeper {
    /// Watches everything that the view holds, as services of the process.
    pub fn follow(&self, tasks: &Tasks) {
        self.follow_kind::<GpuBudget>(tasks, "the watch of budgets");
        self.follow_kind::<Namespace>(tasks, "the watch of namespaces");
        self.follow_kind::<slim::Node>(tasks, "the watch of nodes");
        self.follow_kind::<metering::Pod>(tasks, "the watch of pods");
    }

    fn follow_kind<K>(&self, tasks: &Tasks, name: &'static str)
    where
        K: Kind,
        Self: Index<K>,
        <Self as Index<K>>::Value: Send,
    {
        let (timekeeper, api) = (self.clone(), Api::<K>::all(self.client().clone()));
        tasks.endless(name, async move {
            follow(api, Which::All, &timekeeper).await;
        });
    }

    fn change(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.0.view.write());
        self.0.changes.send_modify(|count| *count += 1);
    }

    fn watch_interrupted(&self, kind: &'static str, error: &watcher::Error) {
        self.0.metrics.watch_interrupted(kind);
        tracing::warn!(%error, kind, "a watch was interrupted; taking it up again");
    }
}

impl Index<GpuBudget> for Timekeeper {
    type Value = GpuBudget;

    fn reduce(&self, budget: &GpuBudget) -> GpuBudget {
        budget.clone()
    }

    fn apply(&self, budget: GpuBudget) {
        self.change(|view| {
            let budgets = view.budgets.get_or_insert_default();
            let before = budgets.insert(budget.name_any(), budget.clone());
            // A status that we wrote ourselves changes no terms.
            let same = before
                .is_some_and(|before| before.spec == budget.spec && before.uid() == budget.uid());
            view.terms += u64::from(!same);
        });
    }

    fn delete(&self, budget: GpuBudget) {
        self.change(|view| {
            view.budgets
                .get_or_insert_default()
                .remove(&budget.name_any());
            view.terms += 1;
        });
    }

    fn replace(&self, budgets: Vec<GpuBudget>) {
        tracing::info!(count = budgets.len(), "listed the budgets");
        self.change(|view| {
            let named = budgets
                .into_iter()
                .map(|budget| (budget.name_any(), budget));
            view.budgets = Some(named.collect());
            view.terms += 1;
        });
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.watch_interrupted("gpubudgets", error);
        if not_served(error) {
            // If the CRD of budgets is missing, there are no budgets.
            self.change(|view| {
                view.budgets = Some(BTreeMap::new());
                view.terms += 1;
            });
        }
    }
}

impl Index<Namespace> for Timekeeper {
    type Value = (String, Labels);

    fn reduce(&self, namespace: &Namespace) -> Self::Value {
        (namespace.name_any(), Labels::from(namespace.labels()))
    }

    fn apply(&self, (name, labels): Self::Value) {
        self.change(|view| {
            let namespaces = view.namespaces.get_or_insert_default();
            let before = namespaces.insert(name, labels.clone());
            view.terms += u64::from(before != Some(labels));
        });
    }

    fn delete(&self, (name, _): Self::Value) {
        self.change(|view| {
            view.namespaces.get_or_insert_default().remove(&name);
            view.terms += 1;
        });
    }

    fn replace(&self, namespaces: Vec<Self::Value>) {
        self.change(|view| {
            view.namespaces = Some(namespaces.into_iter().collect());
            view.terms += 1;
        });
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.watch_interrupted("namespaces", error);
    }
}

/// What the timekeeper reads from a Node.
#[derive(Debug)]
pub struct SeenNode {
    name: String,
    /// `None` if the cards cannot be read. An update then keeps the known cards; a new list shows none.
    cards: Option<Vec<Card>>,
    kubelet: Kubelet,
}

impl Index<slim::Node> for Timekeeper {
    type Value = SeenNode;

    fn reduce(&self, node: &slim::Node) -> Self::Value {
        let name = node.name_any();
        let cards = match convert::cards(node, &self.0.parts.dialects.classes) {
            Ok(cards) => Some(cards.unwrap_or_default()),
            Err(error) => {
                tracing::warn!(node = name, %error, "the node's cards cannot be used");
                None
            }
        };
        SeenNode {
            name,
            cards,
            kubelet: convert::kubelet(node),
        }
    }

    fn apply(&self, node: Self::Value) {
        let SeenNode {
            name,
            cards,
            kubelet,
        } = node;
        let same = |view: &View| {
            let nodes = view.nodes.as_ref();
            let known = nodes.and_then(|nodes| nodes.get(&name));
            (cards.is_none() || known == cards.as_ref()) && view.kubelets.is(&name, kubelet)
        };
        // Nodes send heartbeats every few seconds, which change nothing here.
        if same(&self.0.view.read()) {
            return;
        }
        self.change(|view| {
            Arc::make_mut(&mut view.kubelets).see(&name, kubelet);
            if let Some(cards) = cards {
                Arc::make_mut(view.nodes.get_or_insert_default()).insert(name, cards);
            }
        });
    }

    fn delete(&self, node: Self::Value) {
        let now = self.clock().now();
        self.change(|view| {
            Arc::make_mut(&mut view.kubelets).delete(&node.name, now);
            Arc::make_mut(view.nodes.get_or_insert_default()).remove(&node.name);
        });
    }

    fn replace(&self, nodes: Vec<Self::Value>) {
        tracing::info!(count = nodes.len(), "listed the nodes");
        let now = self.clock().now();
        let kubelets: Vec<_> = nodes
            .iter()
            .map(|node| (node.name.clone(), node.kubelet))
            .collect();
        let known = nodes
            .into_iter()
            .map(|node| (node.name, node.cards.unwrap_or_default()));
        let known = Arc::new(known.collect());
        self.change(|view| {
            Arc::make_mut(&mut view.kubelets).replace(kubelets, now);
            view.nodes = Some(known);
        });
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.watch_interrupted("nodes", error);
    }
}

impl Index<metering::Pod> for Timekeeper {
    /// The second part is `None` for pods that do not concern us.
    type Value = (PodUid, Option<Arc<SeenPod>>);

    fn reduce(&self, pod: &metering::Pod) -> Self::Value {
        let facts = pod.facts(&self.0.parts.dialects);
        let uid = facts.uid.clone();
        let asks = !matches!(facts.ask, Ok(None));
        let concerns = asks || pod.awaits_metering();
        let seen = concerns.then(|| {
            Arc::new(SeenPod {
                pod: pod.clone(),
                facts,
            })
        });
        (uid, seen)
    }

    fn apply(&self, (uid, pod): Self::Value) {
        let known = |view: &View| {
            let pods = view.pods.as_ref();
            pods.is_some_and(|pods| pods.contains_key(&uid))
        };
        if pod.is_some() || known(&self.0.view.read()) {
            self.change(|view| view.put_pod(uid, pod));
        }
    }

    fn delete(&self, (uid, pod): Self::Value) {
        if pod.is_some() {
            let now = self.clock().now();
            self.change(|view| view.remove_pod(&uid, pod, now));
        }
    }

    fn replace(&self, pods: Vec<Self::Value>) {
        let ours = pods.into_iter().filter_map(|(uid, pod)| Some((uid, pod?)));
        let ours: BTreeMap<PodUid, Arc<SeenPod>> = ours.collect();
        tracing::info!(count = ours.len(), "listed the pods that ask for cards");
        let now = self.clock().now();
        self.change(|view| view.replace_pods(ours, now));
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.watch_interrupted("pods", error);
    }
}
