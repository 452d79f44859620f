//! The timekeeper's memory, as the API reads it.

use std::collections::BTreeMap;

use gpushare_core::{PodUid, names};
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::gpu_budget::select::{self, Choice};
use gpushare_ledger::Seconds;
use gpushare_ledger::money::{Amount, Rate};
use gpushare_ledger::policy::Policy;
use gpushare_ledger::store::Change;
use jiff::Timestamp;
use kube::ResourceExt;

use super::{Books, Budget, Payer, Pod, Recording, RecordingError};
use crate::{RecordError, SeenPod, Timekeeper};

impl Books for Timekeeper {
    fn now(&self) -> Seconds {
        self.clock().now()
    }

    fn ready(&self) -> Result<(), String> {
        self.view().ready()
    }

    fn payer(&self, namespace: &str) -> Payer {
        let view = self.view();
        let labels = view.namespaces.as_ref().and_then(|all| all.get(namespace));
        let (Some(labels), Some(budgets)) = (labels, &view.budgets) else {
            return Payer::Unknown;
        };
        match select::choose(budgets.values(), namespace, labels) {
            // A budget with invalid terms pays for nothing.
            Choice::Budget(budget) if Policy::try_from(&budget.spec).is_ok() => {
                Payer::Budget(budget.name_any())
            }
            Choice::Budget(_) | Choice::Unbudgeted => Payer::Nobody,
            Choice::Ambiguous(_) => Payer::Ambiguous,
        }
    }

    fn budget(&self, name: &str) -> Option<Budget> {
        let view = self.view();
        let budgets = view.budgets.as_ref()?;
        let budget = budgets.get(name)?;
        let policy = Policy::try_from(&budget.spec).ok()?;
        let ancestors = ancestors(budgets, budget);
        let known = Budget {
            name: name.to_owned(),
            policy,
            ancestors,
            held: said_to_be_held(budget),
            used: None,
            rate: Rate::ZERO,
        };
        let Some(figures) = self.0.metrics.standing(name) else {
            return Some(known);
        };
        Some(Budget {
            held: figures.sums.held,
            used: Some((figures.start, figures.sums.used)),
            rate: figures.sums.rate,
            ..known
        })
    }

    fn budgets(&self) -> Vec<String> {
        let view = self.view();
        let names = view.budgets.iter().flat_map(|budgets| budgets.keys());
        names.cloned().collect()
    }

    fn pod(&self, namespace: &str, name: &str, likely: Option<&PodUid>) -> Option<Pod> {
        let view = self.view();
        let pods = view.pods.as_ref()?;
        let is_it = |seen: &&SeenPod| {
            seen.facts.namespace == namespace && seen.pod.metadata.name.as_deref() == Some(name)
        };
        // Most pods ask about themselves; other requests can wait for a search of all pods.
        let likely = likely.and_then(|uid| pods.get(uid)).map(AsRef::as_ref);
        let found = likely
            .filter(is_it)
            .or_else(|| pods.values().map(AsRef::as_ref).find(is_it))?;
        let evict_at = found.pod.annotations().get(names::EVICT_AT);
        let evict_at = evict_at.and_then(|text| text.parse::<Timestamp>().ok());
        Some(Pod {
            evict_at: evict_at.map(Timestamp::as_second),
        })
    }

    fn record(&self, change: Change) -> Recording<'_> {
        Box::pin(async move {
            let outcomes = Timekeeper::record(self, vec![change]).await;
            let outcomes = outcomes.map_err(|error| match error {
                RecordError::Store(error) => RecordingError::Store(error),
                RecordError::NotLeading(error) => {
                    RecordingError::NotTheWriter(format!("{error}: try again"))
                }
                RecordError::TooEarly | RecordError::Unusable(_) => {
                    RecordingError::NotTheWriter(error.to_string())
                }
            })?;
            let outcome = outcomes.first().copied();
            outcome.ok_or_else(|| RecordingError::NotTheWriter("nothing was written".to_owned()))
        })
    }
}

/// What the leader last wrote to the status, for replicas that do not meter.
fn said_to_be_held(budget: &GpuBudget) -> Amount {
    let said = budget.status.as_ref();
    let said = said.and_then(|status| status.held_seconds).unwrap_or(0);
    Amount::from_seconds(said).unwrap_or_default()
}

/// From the parent to the root. Empty for a budget whose chain is broken: it is charged by itself.
fn ancestors(budgets: &BTreeMap<String, GpuBudget>, budget: &GpuBudget) -> Vec<String> {
    let by_name: BTreeMap<String, &GpuBudget> = budgets
        .iter()
        .map(|(name, budget)| (name.clone(), budget))
        .collect();
    let chain = select::chain(&by_name, budget).unwrap_or_default();
    let above = chain.into_iter().skip(1);
    above.map(ResourceExt::name_any).collect()
}
