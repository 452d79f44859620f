//! Disruption budgets: which pods may be evicted, and how many.
//!
//! They are read when a decision is made. The API server counts again at each eviction, so a stale
//! number can only lead to a refused eviction, never to a violated budget.

use gpushare_core::preempt::Guard;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::labels::Labels;

#[derive(Clone, Debug, Default)]
pub struct Budgets(Vec<Budget>);

#[derive(Clone, Debug)]
struct Budget {
    namespace: String,
    selector: LabelSelector,
    /// How many more pods it allows to be evicted.
    left: u32,
}

impl Budgets {
    /// All budgets of the cluster, from the API server's cache.
    pub async fn read(client: &Client) -> Result<Self, kube::Error> {
        let api: Api<PodDisruptionBudget> = Api::all(client.clone());
        let cached = ListParams::default().match_any();
        Ok(Self::new(api.list(&cached).await?.items))
    }

    pub fn new(budgets: Vec<PodDisruptionBudget>) -> Self {
        Self(budgets.into_iter().filter_map(Budget::new).collect())
    }

    /// How many evictions each budget allows, indexed by the number in [`Guard::Counted`].
    pub fn headroom(&self) -> Vec<u32> {
        self.0.iter().map(|budget| budget.left).collect()
    }

    /// What protects a running pod from eviction. The API server refuses to evict a pod that two
    /// budgets select.
    pub fn guard(&self, namespace: &str, labels: &Labels) -> Guard {
        let selects = |budget: &Budget| {
            budget.namespace == namespace && labels.match_selector(&budget.selector)
        };
        let mut selecting = self
            .0
            .iter()
            .enumerate()
            .filter(|(_, budget)| selects(budget));
        match (selecting.next(), selecting.next()) {
            (None, _) => Guard::Free,
            (Some((number, _)), None) => Guard::Counted(number),
            (Some(_), Some(_)) => Guard::Protected,
        }
    }
}

impl Budget {
    /// `None` if it has no selector and so selects no pod.
    fn new(budget: PodDisruptionBudget) -> Option<Self> {
        let selector = budget.spec.and_then(|spec| spec.selector)?;
        let status = budget.status.unwrap_or_default();
        // `disruptionsAllowed` was computed for an earlier version of the budget.
        let stale = status.observed_generation < budget.metadata.generation;
        let allowed = u32::try_from(status.disruptions_allowed.unwrap_or(0)).unwrap_or(0);
        Some(Self {
            namespace: budget.metadata.namespace.unwrap_or_default(),
            selector,
            left: if stale { 0 } else { allowed },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn budget(namespace: &str, app: &str, allowed: i32, observed: i64) -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": {"name": app, "namespace": namespace, "generation": 2},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
                "expectedPods": 1, "observedGeneration": observed},
        }))
        .unwrap()
    }

    fn labels(app: &str) -> Labels {
        Labels::from(&BTreeMap::from([("app".to_owned(), app.to_owned())]))
    }

    #[test]
    fn a_budget_guards_the_pods_of_its_namespace_that_it_selects() {
        let budgets = Budgets::new(vec![budget("a", "x", 1, 2), budget("b", "y", 3, 2)]);
        assert_eq!(budgets.headroom(), [1, 3]);
        assert_eq!(budgets.guard("a", &labels("x")), Guard::Counted(0));
        assert_eq!(budgets.guard("b", &labels("y")), Guard::Counted(1));
        assert_eq!(budgets.guard("b", &labels("x")), Guard::Free);
    }

    #[test]
    fn a_pod_under_two_budgets_cannot_be_evicted_at_all() {
        let budgets = Budgets::new(vec![budget("a", "x", 1, 2), budget("a", "x", 1, 2)]);
        assert_eq!(budgets.guard("a", &labels("x")), Guard::Protected);
    }

    #[test]
    fn a_budget_whose_numbers_are_old_lets_nobody_go() {
        let budgets = Budgets::new(vec![budget("a", "x", 5, 1), budget("a", "y", -1, 2)]);
        assert_eq!(budgets.headroom(), [0, 0]);
    }

    #[test]
    fn a_budget_without_a_selector_selects_nobody() {
        let mut without = budget("a", "x", 0, 2);
        if let Some(spec) = &mut without.spec {
            spec.selector = None;
        }
        assert_eq!(
            Budgets::new(vec![without]).guard("a", &labels("x")),
            Guard::Free
        );
    }
}
