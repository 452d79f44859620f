//! The watches that feed the model. While one is broken, the model keeps what it last showed.

use gpushare_core::PodUid;
use gpushare_daemon::Tasks;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::kinds::Namespace;
use gpushare_kube::labels::Labels;
use gpushare_kube::slim;
use gpushare_kube::watch::{Index, Kind, follow_all, not_served};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};

use crate::Dashboard;
use crate::model::{Model, ObservedNode, Pod};

impl Dashboard {
    /// Watches everything that the model contains, as services of the process.
    pub(crate) fn follow(&self, client: &Client, tasks: &Tasks) {
        let index = || Following(self.clone());
        follow_all::<slim::Node>(client, tasks, "the watch of nodes", index());
        follow_all::<slim::Pod>(client, tasks, "the watch of pods", index());
        follow_all::<GpuBudget>(client, tasks, "the watch of budgets", index());
        follow_all::<Namespace>(client, tasks, "the watch of namespaces", index());
    }

    fn change(&self, change: impl FnOnce(&mut Model)) {
        change(&mut self.0.model.write());
        self.0.changed.notify_one();
    }
}

/// A kind of which the model keeps something.
trait Followed: Kind {
    type Kept: Send;

    fn kept(&self, model: &Model) -> Self::Kept;
    fn set(model: &mut Model, kept: Self::Kept);
    fn remove(model: &mut Model, kept: &Self::Kept);
    fn replace(model: &mut Model, all: Vec<Self::Kept>);
}

impl Followed for slim::Node {
    type Kept = ObservedNode;

    fn kept(&self, model: &Model) -> ObservedNode {
        model.see_node(self)
    }

    fn set(model: &mut Model, kept: ObservedNode) {
        model.set_node(kept);
    }

    fn remove(model: &mut Model, (name, _): &ObservedNode) {
        model.remove_node(name);
    }

    fn replace(model: &mut Model, all: Vec<ObservedNode>) {
        model.replace_nodes(all);
    }
}

impl Followed for slim::Pod {
    type Kept = (PodUid, Option<Pod>);

    fn kept(&self, model: &Model) -> Self::Kept {
        model.see_pod(self)
    }

    fn set(model: &mut Model, kept: Self::Kept) {
        model.set_pod(kept);
    }

    fn remove(model: &mut Model, (uid, _): &Self::Kept) {
        model.remove_pod(uid);
    }

    fn replace(model: &mut Model, all: Vec<Self::Kept>) {
        model.replace_pods(all);
    }
}

impl Followed for GpuBudget {
    type Kept = (String, GpuBudget);

    fn kept(&self, _: &Model) -> Self::Kept {
        (self.name_any(), self.clone())
    }

    fn set(model: &mut Model, (name, budget): Self::Kept) {
        model.set_budget(name, budget);
    }

    fn remove(model: &mut Model, (name, _): &Self::Kept) {
        model.remove_budget(name);
    }

    fn replace(model: &mut Model, all: Vec<Self::Kept>) {
        model.replace_budgets(all.into_iter().collect());
    }
}

impl Followed for Namespace {
    type Kept = (String, Labels);

    fn kept(&self, _: &Model) -> Self::Kept {
        (self.name_any(), Labels::from(self.labels()))
    }

    fn set(model: &mut Model, (name, labels): Self::Kept) {
        model.set_namespace(name, labels);
    }

    fn remove(model: &mut Model, (name, _): &Self::Kept) {
        model.remove_namespace(name);
    }

    fn replace(model: &mut Model, all: Vec<Self::Kept>) {
        model.replace_namespaces(all.into_iter().collect());
    }
}

struct Following(Dashboard);

impl<K: Followed> Index<K> for Following {
    type Value = K::Kept;

    fn reduce(&self, object: &K) -> K::Kept {
        object.kept(&self.0.0.model.read())
    }

    fn apply(&self, kept: K::Kept) {
        self.0.change(|model| K::set(model, kept));
    }

    fn delete(&self, kept: K::Kept) {
        self.0.change(|model| K::remove(model, &kept));
    }

    fn replace(&self, all: Vec<K::Kept>) {
        let kind = K::kind(&());
        tracing::info!(%kind, count = all.len(), "listed");
        self.0.change(|model| K::replace(model, all));
    }

    fn interrupted(&self, error: &watcher::Error) {
        let kind = K::kind(&());
        self.0.0.metrics.interrupted();
        if not_served(error) {
            // If the CRD is not installed, there are no budgets.
            tracing::debug!(%kind, "not known to the API server");
            self.0.change(|model| K::replace(model, Vec::new()));
            return;
        }
        tracing::warn!(%error, %kind, "a watch was interrupted; taking it up again");
    }
}
