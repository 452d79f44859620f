//! The node affinity that a pod requires.
//!
//! A term counts only if it is valid as a whole: one requirement that is not valid makes the term match no node.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

/// The only field of a node that kube-scheduler knows; every other is empty.
const NAME: &str = "metadata.name";
const LONGEST_NAME: usize = 63;
const LONGEST_PREFIX: usize = 253;

/// Whether one of the terms matches the node. Without any term, none does.
pub(super) fn matches<'a>(
    required: &NodeSelector,
    node: &str,
    label: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    let field = |key: &str| if key == NAME { node } else { "" };
    let matches = |term: &NodeSelectorTerm| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(is_valid)
            && expressions.iter().all(|one| is_met(one, label(&one.key)))
            && fields.iter().all(|one| is_met_by(one, field(&one.key)))
    };
    required.node_selector_terms.iter().any(matches)
}

fn is_valid(required: &NodeSelectorRequirement) -> bool {
    let values = values(required);
    let fit = match required.operator.as_str() {
        "In" | "NotIn" => !values.is_empty(),
        "Exists" | "DoesNotExist" => values.is_empty(),
        "Gt" | "Lt" => matches!(values, [one] if one.parse::<i64>().is_ok()),
        _ => false,
    };
    fit && is_key(&required.key)
        && values
            .iter()
            .all(|value| value.is_empty() || is_name(value))
}

/// Whether a label with this value, or none, meets a valid requirement.
fn is_met(required: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = values(required);
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

/// Whether a field with this value meets the requirement. Fields can only be compared with one value.
fn is_met_by(required: &NodeSelectorRequirement, value: &str) -> bool {
    match (required.operator.as_str(), values(required)) {
        ("In", [one]) => one == value,
        ("NotIn", [one]) => one != value,
        _ => false,
    }
}

fn values(required: &NodeSelectorRequirement) -> &[String] {
    required.values.as_deref().unwrap_or_default()
}

/// Whether a label may have this key: a name, with or without a DNS name and a slash before it.
fn is_key(key: &str) -> bool {
    let Some((prefix, name)) = key.split_once('/') else {
        return is_name(key);
    };
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut parts = prefix.split('.');
    prefix.len() <= LONGEST_PREFIX
        && parts.all(|part| is_framed(part, lower, |byte| byte == b'-'))
        && is_name(name)
}

/// Whether this is a valid name, as in the keys and values of labels.
fn is_name(name: &str) -> bool {
    let inside = |byte| matches!(byte, b'-' | b'_' | b'.');
    name.len() <= LONGEST_NAME && is_framed(name, |byte| byte.is_ascii_alphanumeric(), inside)
}

/// Whether the text begins and ends with bytes of `ends`, and has only bytes of `ends` and `inside` between.
fn is_framed(text: &str, ends: impl Fn(u8) -> bool, inside: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| ends(*byte))
        && bytes.last().is_some_and(|byte| ends(*byte))
        && bytes.iter().all(|byte| ends(*byte) || inside(*byte))
}
