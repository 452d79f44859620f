use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Value, json};

use super::select::{ChainError, Choice, chain, choose};
use super::{AmountText, GpuBudget, PeriodKind, WhenExhausted};
use crate::labels::Labels;

fn budget(name: &str, spec: Value) -> GpuBudget {
    let mut spec = spec;
    if spec.get("amount").is_none() {
        spec["amount"] = json!("20h");
    }
    serde_json::from_value(json!({
        "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget",
        "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Labels::from(&pairs.iter().map(owned).collect::<BTreeMap<_, _>>())
}

fn chosen(budgets: &[GpuBudget], namespace: &str, pairs: &[(&str, &str)]) -> Vec<String> {
    match choose(budgets, namespace, &labels(pairs)) {
        Choice::Unbudgeted => Vec::new(),
        Choice::Budget(budget) => vec![budget.name_any()],
        Choice::Ambiguous(budgets) => budgets.iter().map(|budget| budget.name_any()).collect(),
    }
}

#[test]
fn what_is_left_out_has_the_documented_defaults() {
    let budget = budget("a", json!({"amount": 72_000}));
    assert_eq!(budget.spec.amount, AmountText::Seconds(72_000));
    assert_eq!(budget.spec.period.kind, PeriodKind::Month);
    assert_eq!(budget.spec.period.time_zone, "UTC");
    assert_eq!(budget.spec.when_exhausted, WhenExhausted::Demote);
}

#[test]
fn a_name_beats_a_team_and_a_team_beats_a_selector() {
    let budgets = [
        budget(
            "by-selector",
            json!({"namespaces": {"selector": {"matchLabels": {"env": "dev"}}}}),
        ),
        budget("by-team", json!({"namespaces": {"team": "vision"}})),
        budget("by-name", json!({"namespaces": {"names": ["a", "b"]}})),
        budget("root", json!({})),
    ];
    let both = [("gpushare.io/team", "vision"), ("env", "dev")];
    assert_eq!(chosen(&budgets, "a", &both), ["by-name"]);
    assert_eq!(chosen(&budgets, "c", &both), ["by-team"]);
    assert_eq!(chosen(&budgets, "c", &both[1..]), ["by-selector"]);
    assert_eq!(
        chosen(&budgets, "c", &[("gpushare.io/team", "audio")]),
        [""; 0]
    );
}

#[test]
fn two_budgets_with_the_same_right_are_ambiguous_in_any_order() {
    let one = budget("one", json!({"namespaces": {"team": "vision"}}));
    let two = budget("two", json!({"namespaces": {"team": "vision"}}));
    let team = [("gpushare.io/team", "vision")];
    for budgets in [[one.clone(), two.clone()], [two, one]] {
        assert_eq!(chosen(&budgets, "a", &team), ["one", "two"]);
    }
}

#[test]
fn a_chain_leads_from_the_leaf_to_the_root() {
    let budgets = [
        budget("leaf", json!({"parent": "group"})),
        budget("group", json!({"parent": "root"})),
        budget("root", json!({})),
        budget("lost", json!({"parent": "nobody"})),
        budget("egg", json!({"parent": "hen"})),
        budget("hen", json!({"parent": "egg"})),
    ];
    let by_name: BTreeMap<String, &GpuBudget> = budgets
        .iter()
        .map(|budget| (budget.name_any(), budget))
        .collect();
    let names = |leaf: usize| {
        chain(&by_name, &budgets[leaf]).map(|chain| {
            chain
                .iter()
                .map(|budget| budget.name_any())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(names(0).unwrap(), ["leaf", "group", "root"]);
    let missing = ChainError::Missing {
        child: "lost".to_owned(),
        parent: "nobody".to_owned(),
    };
    assert_eq!(names(3), Err(missing));
    assert_eq!(names(4), Err(ChainError::Cycle("egg".to_owned())));
}
