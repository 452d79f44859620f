//! The watches of budgets, namespaces and priority classes.

use std::collections::BTreeMap;

use gpushare_daemon::Tasks;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::kinds::{Namespace, PriorityClass};
use gpushare_kube::labels::Labels;
use gpushare_kube::watch::{Index, Kind, Which, follow, not_served};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};

use super::Webhook;
use super::priority::Class;
use super::view::View;

impl Webhook {
    /// Watches everything that the view holds, as services of the process.
    pub fn follow(&self, client: &Client, tasks: &Tasks) {
        self.follow_kind::<GpuBudget>(client, tasks, "the watch of budgets");
        self.follow_kind::<Namespace>(client, tasks, "the watch of namespaces");
        self.follow_kind::<PriorityClass>(client, tasks, "the watch of priority classes");
    }

    /// Loads a complete picture of the cluster, as the first lists of the watches would.
    pub fn load(&self, budgets: &[GpuBudget], namespaces: &[Namespace], classes: &[PriorityClass]) {
        self.load_kind(budgets);
        self.load_kind(namespaces);
        self.load_kind(classes);
    }

    fn load_kind<K: Followed>(&self, objects: &[K]) {
        let index = Following(self);
        let kept = objects.iter().map(|object| index.reduce(object)).collect();
        Index::<K>::replace(&index, kept);
    }

    fn follow_kind<K: Followed>(&self, client: &Client, tasks: &Tasks, name: &'static str) {
        let (webhook, api) = (self.clone(), Api::<K>::all(client.clone()));
        tasks.endless(name, async move {
            follow(api, Which::All, &Following(&webhook)).await;
        });
    }

    fn change(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.0.view.write());
        self.0.changed.notify_waiters();
    }
}

/// A kind of which the view holds something.
trait Followed: Kind {
    type Kept: Send;
    const PLURAL: &'static str;

    fn kept(&self) -> Self::Kept;

    /// Where in the view they are kept, by name.
    fn place(view: &mut View) -> &mut Option<BTreeMap<String, Self::Kept>>;
}

impl Followed for GpuBudget {
    type Kept = GpuBudget;
    const PLURAL: &'static str = "gpubudgets";

    fn kept(&self) -> GpuBudget {
        self.clone()
    }

    fn place(view: &mut View) -> &mut Option<BTreeMap<String, GpuBudget>> {
        &mut view.budgets
    }
}

impl Followed for Namespace {
    type Kept = Labels;
    const PLURAL: &'static str = "namespaces";

    fn kept(&self) -> Labels {
        Labels::from(self.labels())
    }

    fn place(view: &mut View) -> &mut Option<BTreeMap<String, Labels>> {
        &mut view.namespaces
    }
}

impl Followed for PriorityClass {
    type Kept = Class;
    const PLURAL: &'static str = "priorityclasses";

    fn kept(&self) -> Class {
        Class {
            value: self.value.unwrap_or(0),
            preempts: self.preemption_policy.as_deref() != Some("Never"),
            is_default: self.global_default == Some(true),
        }
    }

    fn place(view: &mut View) -> &mut Option<BTreeMap<String, Class>> {
        &mut view.classes
    }
}

struct Following<'a>(&'a Webhook);

impl<K: Followed> Index<K> for Following<'_> {
    type Value = (String, K::Kept);

    fn reduce(&self, object: &K) -> Self::Value {
        (object.name_any(), object.kept())
    }

    fn apply(&self, (name, kept): Self::Value) {
        self.0.change(|view| {
            K::place(view).get_or_insert_default().insert(name, kept);
        });
    }

    fn delete(&self, (name, _): Self::Value) {
        self.0.change(|view| {
            K::place(view).get_or_insert_default().remove(&name);
        });
    }

    fn replace(&self, all: Vec<Self::Value>) {
        tracing::info!(kind = K::PLURAL, count = all.len(), "listed");
        self.0
            .change(|view| *K::place(view) = Some(all.into_iter().collect()));
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.0.0.metrics.watch_interrupted(K::PLURAL);
        if not_served(error) {
            // If the CRD of budgets is missing, there are no budgets.
            tracing::debug!(kind = K::PLURAL, "not known to the API server");
            self.0
                .change(|view| *K::place(view) = Some(BTreeMap::new()));
            return;
        }
        tracing::warn!(%error, kind = K::PLURAL, "a watch was interrupted; taking it up again");
    }
}
