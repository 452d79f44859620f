//! What the webhook knows of the cluster, as the watches last showed it.
//!
//! A broken watch changes nothing: the last state holds until there is a new one. Before the first lists, and
//! for a namespace that was only just created, the state of its budget is unknown, never a guess.

use std::collections::BTreeMap;

use gpushare_kube::gpu_budget::select::{Choice, choose};
use gpushare_kube::gpu_budget::{GpuBudget, WhenExhausted};
use gpushare_kube::labels::Labels;

use super::decide::ReviewContext;
use super::priority::{AtTheEnd, BudgetState, Class};

#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) budgets: Option<BTreeMap<String, GpuBudget>>,
    pub(super) namespaces: Option<BTreeMap<String, Labels>>,
    pub(super) classes: Option<BTreeMap<String, Class>>,
}

static NO_CLASSES: BTreeMap<String, Class> = BTreeMap::new();

impl View {
    pub(super) fn context<'a>(&'a self, namespace: &'a str) -> ReviewContext<'a> {
        ReviewContext {
            namespace,
            budget: self.budget_state(namespace),
            classes: self.classes.as_ref().unwrap_or(&NO_CLASSES),
        }
    }

    pub(super) fn budget_state(&self, namespace: &str) -> BudgetState {
        let (Some(budgets), Some(namespaces), Some(_)) =
            (&self.budgets, &self.namespaces, &self.classes)
        else {
            return BudgetState::Unknown;
        };
        if budgets.is_empty() {
            return BudgetState::Free;
        }
        let Some(labels) = namespaces.get(namespace) else {
            return BudgetState::Unknown;
        };
        match choose(budgets.values(), namespace, labels) {
            Choice::Unbudgeted | Choice::Ambiguous(_) => BudgetState::Free,
            Choice::Budget(budget) => of(budget),
        }
    }

    pub(super) fn ready(&self) -> Result<(), String> {
        let missing = match self {
            Self { budgets: None, .. } => "budgets",
            Self {
                namespaces: None, ..
            } => "namespaces",
            Self { classes: None, .. } => "priority classes",
            _ => return Ok(()),
        };
        Err(format!("the {missing} have not been listed yet"))
    }
}

/// A budget without a status is new, so none of it is used.
fn of(budget: &GpuBudget) -> BudgetState {
    let exhausted = budget
        .status
        .as_ref()
        .is_some_and(|status| status.exhausted);
    match budget.spec.when_exhausted {
        _ if !exhausted => BudgetState::Within,
        WhenExhausted::Demote | WhenExhausted::EvictWithGrace => {
            BudgetState::Over(AtTheEnd::Demote)
        }
        WhenExhausted::ThrottleNew => BudgetState::Over(AtTheEnd::Wait),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn budget(name: &str, namespaces: &Value, when: &str, exhausted: bool) -> (String, GpuBudget) {
        let budget = json!({
            "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget", "metadata": {"name": name},
            "spec": {"amount": "20h", "namespaces": namespaces, "whenExhausted": when},
            "status": {"exhausted": exhausted},
        });
        (name.to_owned(), serde_json::from_value(budget).unwrap())
    }

    fn view() -> View {
        let team = |team: &str| {
            Labels::from(&BTreeMap::from([(
                "gpushare.io/team".to_owned(),
                team.to_owned(),
            )]))
        };
        let namespaces = [
            ("a", ""),
            ("b", "blue"),
            ("c", "red"),
            ("d", "green"),
            ("e", ""),
        ];
        View {
            budgets: Some(BTreeMap::from([
                budget("a", &json!({"names": ["a"]}), "Demote", false),
                budget("b", &json!({"team": "blue"}), "Demote", true),
                budget("c", &json!({"team": "red"}), "ThrottleNew", true),
                budget("d", &json!({"team": "green"}), "EvictWithGrace", true),
            ])),
            namespaces: Some(
                namespaces
                    .map(|(name, of)| (name.to_owned(), team(of)))
                    .into(),
            ),
            classes: Some(BTreeMap::new()),
        }
    }

    #[test]
    fn a_namespace_stands_as_its_budget_does() {
        let view = view();
        for (namespace, expected) in [
            ("a", BudgetState::Within),
            ("b", BudgetState::Over(AtTheEnd::Demote)),
            ("c", BudgetState::Over(AtTheEnd::Wait)),
            ("d", BudgetState::Over(AtTheEnd::Demote)),
            ("e", BudgetState::Free),
            ("just-made", BudgetState::Unknown),
        ] {
            assert_eq!(view.budget_state(namespace), expected, "{namespace}");
        }
    }

    #[test]
    fn without_budgets_nobody_waits_for_anything() {
        let mut view = view();
        view.budgets = Some(BTreeMap::new());
        assert_eq!(view.budget_state("just-made"), BudgetState::Free);
    }

    #[test]
    fn nothing_is_known_and_nothing_is_ready_before_everything_was_listed() {
        let complete = view();
        assert_eq!(complete.ready(), Ok(()));
        let without_budgets = View {
            budgets: None,
            ..view()
        };
        let without_namespaces = View {
            namespaces: None,
            ..view()
        };
        let without_classes = View {
            classes: None,
            ..view()
        };
        for view in [without_budgets, without_namespaces, without_classes] {
            assert_eq!(view.budget_state("a"), BudgetState::Unknown);
            assert!(view.ready().unwrap_err().contains("not been listed"));
        }
    }

    #[test]
    fn a_budget_that_nobody_has_counted_yet_pays() {
        let mut view = view();
        for budget in view.budgets.iter_mut().flatten() {
            budget.1.status = None;
        }
        assert_eq!(view.budget_state("b"), BudgetState::Within);
    }
}
