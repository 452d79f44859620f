//! kube-scheduler's checks that come before ours and need only a pod and a node: taints, labels, affinity.
//!
//! They follow the scheduler's own rules, so that both give the same answer. As in the scheduler, what
//! cannot be parsed counts as not met.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration,
};

/// The taints that keep the pod off the node.
pub(super) fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &'a [Toleration],
) -> impl Iterator<Item = &'a Taint> {
    let hard = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    taints
        .iter()
        .filter(hard)
        .filter(|taint| !tolerations.iter().any(|one| tolerates(one, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |text: &Option<String>| {
        text.as_deref()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let effect = given(&toleration.effect).is_none_or(|effect| effect == taint.effect);
    let key = given(&toleration.key).is_none_or(|key| key == taint.key);
    let value =
        || toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or("");
    effect
        && key
        && match given(&toleration.operator).as_deref() {
            Some("Exists") => true,
            None | Some("Equal") => given(&toleration.key).is_some() && value(),
            Some(_) => false,
        }
}

/// Whether the node is one that the pod requires.
pub(super) fn required_affinity(
    affinity: Option<&Affinity>,
    node: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    let required = affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|nodes| {
            nodes
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    required.is_none_or(|required| {
        let mut terms = required.node_selector_terms.iter();
        terms.any(|term| term_matches(term, node, labels))
    })
}

fn term_matches(term: &NodeSelectorTerm, node: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let label = |required: &NodeSelectorRequirement| {
        let value = labels.get(&required.key).map(String::as_str);
        met(required, value)
    };
    let field = |required: &NodeSelectorRequirement| {
        required.key == "metadata.name" && met(required, Some(node))
    };
    expressions.iter().all(label) && fields.iter().all(field)
}

fn met(required: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = required.values.as_deref().unwrap_or_default();
    let named = || value.is_some_and(|value| values.iter().any(|one| one == value));
    let numbers = || {
        let value: i64 = value?.parse().ok()?;
        let than: i64 = values.first()?.parse().ok()?;
        Some((value, than))
    };
    match required.operator.as_str() {
        "In" => named(),
        "NotIn" => !named(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, than)| value > than),
        "Lt" => numbers().is_some_and(|(value, than)| value < than),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check_toleration(toleration: &Value, expected: bool) {
        let taint: Taint =
            serde_json::from_value(json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}))
                .unwrap();
        let tolerations: Vec<Toleration> = serde_json::from_value(json!([toleration])).unwrap();
        let left = untolerated(std::slice::from_ref(&taint), &tolerations).count();
        assert_eq!(left == 0, expected, "{toleration}");
    }

    #[test]
    fn a_taint_is_tolerated_by_key_value_and_effect() {
        check_toleration(&json!({"key": "gpu", "value": "yes"}), true);
        check_toleration(&json!({"key": "gpu", "value": "no"}), false);
        check_toleration(&json!({"key": "gpu"}), false);
        check_toleration(&json!({"key": "gpu", "operator": "Exists"}), true);
        check_toleration(&json!({"operator": "Exists"}), true);
        check_toleration(&json!({"operator": "Exists", "effect": "NoExecute"}), false);
        check_toleration(&json!({"key": "other", "operator": "Exists"}), false);
    }

    #[test]
    fn a_preference_keeps_nobody_off() {
        let taint: Taint =
            serde_json::from_value(json!({"key": "a", "effect": "PreferNoSchedule"})).unwrap();
        assert_eq!(untolerated(&[taint], &[]).count(), 0);
    }

    fn check_affinity(terms: &Value, expected: bool) {
        let affinity: Affinity = serde_json::from_value(json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}))
        .unwrap();
        let labels = BTreeMap::from([
            ("zone".to_owned(), "a".to_owned()),
            ("cards".to_owned(), "4".to_owned()),
        ]);
        let found = required_affinity(Some(&affinity), "n1", &labels);
        assert_eq!(found, expected, "{terms}");
    }

    #[test]
    fn one_term_with_all_its_requirements_is_enough() {
        let term = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        check_affinity(&json!([term("zone", "In", &["a", "b"])]), true);
        check_affinity(&json!([term("zone", "In", &["b"])]), false);
        check_affinity(
            &json!([term("zone", "In", &["b"]), term("cards", "Gt", &["2"])]),
            true,
        );
        check_affinity(&json!([term("cards", "Lt", &["2"])]), false);
        check_affinity(&json!([term("none", "NotIn", &["x"])]), true);
        check_affinity(&json!([term("none", "Exists", &[])]), false);
        check_affinity(
            &json!([{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]),
            true,
        );
        check_affinity(&json!([{}]), false);
        assert!(required_affinity(None, "n1", &BTreeMap::new()));
    }
}
