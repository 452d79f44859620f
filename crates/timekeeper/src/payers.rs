//! Which budget pays for which namespace, and by which terms. Pure: the same objects give the same answer.

use std::collections::BTreeMap;

use gpushare_kube::gpu_budget::select::{self, ChainError, Choice};
use gpushare_kube::gpu_budget::{GpuBudget, condition};
use gpushare_kube::labels::Labels;
use gpushare_ledger::Seconds;
use gpushare_ledger::meter::Tier;
use gpushare_ledger::policy::Policy;
use kube::ResourceExt;

#[derive(Debug, Default)]
pub(super) struct Payers {
    budgets: BTreeMap<String, Payer>,
    /// The budget that each namespace pays from; `None` for those without one.
    namespaces: BTreeMap<String, Option<String>>,
}

/// A budget as it is charged.
#[derive(Debug)]
pub(super) struct Payer {
    /// `None` if its terms are invalid: then nothing is charged to it.
    pub(super) policy: Option<Policy>,
    /// From itself up to the root.
    pub(super) chain: Vec<Link>,
    pub(super) problem: Option<Problem>,
}

/// A budget of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) tier: Tier,
    /// The budget pays for no time before this.
    pub(super) created: Seconds,
}

/// Why a budget does not work as its author meant, as its condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Who pays for a namespace.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pays<'a> {
    /// The namespace has not been listed yet.
    Unknown,
    Nobody,
    Budget(&'a Payer),
}

impl Payers {
    pub(super) fn new(
        budgets: &BTreeMap<String, GpuBudget>,
        namespaces: &BTreeMap<String, Labels>,
    ) -> Self {
        let mut payers: BTreeMap<String, Payer> = budgets
            .iter()
            .map(|(name, budget)| (name.clone(), Payer::alone(budget)))
            .collect();
        let objects: BTreeMap<String, &GpuBudget> = budgets
            .iter()
            .map(|(name, budget)| (name.clone(), budget))
            .collect();
        for (name, budget) in budgets {
            let (links, problem) = links(&objects, budget, &payers);
            if let Some(payer) = payers.get_mut(name) {
                payer.problem = payer.problem.take().or(problem);
                payer.chain = links;
            }
        }
        let namespaces = namespaces.iter().map(|(namespace, labels)| {
            let chosen = match select::choose(budgets.values(), namespace, labels) {
                Choice::Unbudgeted => None,
                Choice::Budget(budget) => Some(budget.name_any()),
                Choice::Ambiguous(rivals) => {
                    complain(&mut payers, namespace, &rivals);
                    None
                }
            };
            (namespace.clone(), chosen)
        });
        let namespaces = namespaces.collect();
        Self {
            budgets: payers,
            namespaces,
        }
    }

    pub(super) fn of(&self, namespace: &str) -> Pays<'_> {
        match self.namespaces.get(namespace) {
            None => Pays::Unknown,
            Some(budget) => {
                let payer = budget.as_ref().and_then(|name| self.budgets.get(name));
                let understood = payer.filter(|payer| payer.policy.is_some());
                understood.map_or(Pays::Nobody, Pays::Budget)
            }
        }
    }

    pub(super) fn budget(&self, name: &str) -> Option<&Payer> {
        self.budgets.get(name)
    }

    /// Budgets with valid terms.
    pub(super) fn understood(&self) -> Vec<(&str, &Policy, &Payer)> {
        let payers = self.budgets.iter();
        payers
            .filter_map(|(name, payer)| Some((name.as_str(), payer.policy.as_ref()?, payer)))
            .collect()
    }
}

impl Payer {
    /// Without its ancestors.
    fn alone(budget: &GpuBudget) -> Self {
        let (policy, problem) = match Policy::try_from(&budget.spec) {
            Ok(policy) => (Some(policy), None),
            Err(error) => {
                let message = format!("{error}. Until that is corrected nobody pays from it");
                let reason = condition::INVALID;
                (None, Some(Problem { reason, message }))
            }
        };
        Self {
            policy,
            chain: Vec::new(),
            problem,
        }
    }
}

/// The chain up to the first budget with invalid terms. If a parent is missing or the chain has no end, the budget
/// alone, and the problem.
fn links(
    objects: &BTreeMap<String, &GpuBudget>,
    budget: &GpuBudget,
    payers: &BTreeMap<String, Payer>,
) -> (Vec<Link>, Option<Problem>) {
    let (chain, problem) = match select::chain(objects, budget) {
        Ok(chain) => (chain, None),
        Err(error) => {
            let reason = match error {
                ChainError::Missing { .. } => condition::PARENT_MISSING,
                ChainError::Cycle(_) => condition::PARENT_CYCLE,
                ChainError::TooDeep(_) => condition::INVALID,
            };
            let message = format!("{error}. Until then it is charged by itself");
            (vec![budget], Some(Problem { reason, message }))
        }
    };
    let links = chain.into_iter().map_while(|budget| {
        let name = budget.name_any();
        let policy = payers.get(&name)?.policy.as_ref()?;
        let created = budget.creation_timestamp();
        Some(Link {
            tier: Tier {
                budget: name,
                schedule: policy.schedule.clone(),
            },
            created: created.map_or(Seconds::MIN, |time| time.0.as_second()),
        })
    });
    (links.collect(), problem)
}

fn complain(payers: &mut BTreeMap<String, Payer>, namespace: &str, rivals: &[&GpuBudget]) {
    let names: Vec<String> = rivals.iter().map(|budget| budget.name_any()).collect();
    for name in &names {
        if let Some(payer) = payers.get_mut(name) {
            payer.problem.get_or_insert_with(|| Problem {
                reason: condition::AMBIGUOUS,
                message: format!(
                    "namespace {namespace} is selected equally specifically by {}: it is treated as having no budget \
                     until only one of them selects it",
                    names.join(" and ")
                ),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn budget(name: &str, spec: &Value) -> (String, GpuBudget) {
        let mut spec = spec.clone();
        spec["amount"] = json!("20h");
        let budget = json!({
            "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget",
            "metadata": {"name": name, "creationTimestamp": "1970-01-01T00:01:00Z"}, "spec": spec,
        });
        (name.to_owned(), serde_json::from_value(budget).unwrap())
    }

    fn payers(budgets: &[(&str, Value)]) -> Payers {
        let budgets = budgets.iter().map(|(name, spec)| budget(name, spec));
        let namespaces = ["a", "b"].map(|name| (name.to_owned(), Labels::default()));
        Payers::new(&budgets.collect(), &namespaces.into())
    }

    fn chain(payers: &Payers, namespace: &str) -> Vec<String> {
        let Pays::Budget(payer) = payers.of(namespace) else {
            return Vec::new();
        };
        let names = payer.chain.iter();
        names.map(|link| link.tier.budget.clone()).collect()
    }

    fn reason(payers: &Payers, budget: &str) -> Option<&'static str> {
        let problem = payers.budget(budget).unwrap().problem.as_ref();
        problem.map(|problem| problem.reason)
    }

    #[test]
    fn a_namespace_is_charged_to_its_budget_and_all_above() {
        let payers = payers(&[
            (
                "leaf",
                json!({"namespaces": {"names": ["a"]}, "parent": "middle"}),
            ),
            ("middle", json!({"parent": "root"})),
            ("root", json!({})),
        ]);
        assert_eq!(chain(&payers, "a"), ["leaf", "middle", "root"]);
        assert!(matches!(payers.of("b"), Pays::Nobody));
        assert!(matches!(payers.of("just-made"), Pays::Unknown));
        assert_eq!(reason(&payers, "leaf"), None);
        assert_eq!(payers.budget("leaf").unwrap().chain[0].created, 60);
    }

    #[test]
    fn a_budget_without_its_parent_is_charged_by_itself_and_says_so() {
        let payers = payers(&[
            (
                "orphan",
                json!({"namespaces": {"names": ["a"]}, "parent": "nobody"}),
            ),
            (
                "round",
                json!({"namespaces": {"names": ["b"]}, "parent": "about"}),
            ),
            ("about", json!({"parent": "round"})),
        ]);
        assert_eq!(chain(&payers, "a"), ["orphan"]);
        assert_eq!(reason(&payers, "orphan"), Some(condition::PARENT_MISSING));
        assert_eq!(chain(&payers, "b"), ["round"]);
        assert_eq!(reason(&payers, "round"), Some(condition::PARENT_CYCLE));
    }

    #[test]
    fn a_namespace_that_two_select_alike_has_no_budget_and_both_say_so() {
        let payers = payers(&[
            ("one", json!({"namespaces": {"names": ["a"]}})),
            ("two", json!({"namespaces": {"names": ["a", "b"]}})),
        ]);
        assert!(matches!(payers.of("a"), Pays::Nobody));
        assert_eq!(chain(&payers, "b"), ["two"]);
        for name in ["one", "two"] {
            assert_eq!(reason(&payers, name), Some(condition::AMBIGUOUS));
        }
    }

    #[test]
    fn terms_that_make_no_sense_charge_nobody() {
        let payers = payers(&[
            (
                "wrong",
                json!({"namespaces": {"names": ["a"]}, "period": {"timeZone": "Nowhere"}}),
            ),
            (
                "child",
                json!({"namespaces": {"names": ["b"]}, "parent": "wrong"}),
            ),
        ]);
        assert!(matches!(payers.of("a"), Pays::Nobody));
        assert_eq!(reason(&payers, "wrong"), Some(condition::INVALID));
        assert_eq!(chain(&payers, "b"), ["child"]);
        assert_eq!(payers.understood().len(), 1);
    }
}
