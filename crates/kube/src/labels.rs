//! Labels in little memory, and selectors over them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// A pod's labels in one string, because there are tens of thousands of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Box<str>);

impl Labels {
    pub fn get(&self, key: &str) -> Option<&str> {
        let values = self.0.lines().filter_map(|line| line.split_once('='));
        values
            .filter(|(name, _)| *name == key)
            .map(|(_, value)| value)
            .next()
    }

    /// A selector without requirements matches everything. So does one that cannot be understood: selectors
    /// protect pods, so in doubt the pod is left alone.
    pub fn match_selector(&self, selector: &LabelSelector) -> bool {
        let equal = selector.match_labels.iter().flatten();
        let required = selector.match_expressions.iter().flatten();
        equal
            .into_iter()
            .all(|(key, value)| self.get(key) == Some(value))
            && required.into_iter().all(|required| self.satisfy(required))
    }

    fn satisfy(&self, required: &LabelSelectorRequirement) -> bool {
        let value = self.get(&required.key);
        let named = || {
            let mut values = required.values.iter().flatten();
            value.is_some_and(|value| values.any(|other| other == value))
        };
        match required.operator.as_str() {
            "In" => named(),
            "NotIn" => !named(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => true,
        }
    }
}

impl From<&BTreeMap<String, String>> for Labels {
    fn from(labels: &BTreeMap<String, String>) -> Self {
        // Neither keys nor values can contain '=' or a newline.
        let lines = labels
            .iter()
            .flat_map(|(key, value)| [key, "=", value, "\n"]);
        Self(lines.collect::<String>().into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels() -> Labels {
        let labels = BTreeMap::from([
            ("app".to_owned(), "train".to_owned()),
            ("example.com/team".to_owned(), String::new()),
        ]);
        Labels::from(&labels)
    }

    fn check(selector: &serde_json::Value, expected: bool) {
        let parsed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
        assert_eq!(labels().match_selector(&parsed), expected, "{selector}");
    }

    #[test]
    fn labels_are_found_by_their_whole_name() {
        assert_eq!(labels().get("app"), Some("train"));
        assert_eq!(labels().get("example.com/team"), Some(""));
        assert_eq!(labels().get("ap"), None);
        assert_eq!(Labels::default().get("app"), None);
    }

    #[test]
    fn a_selector_matches_when_every_requirement_does() {
        check(&json!({}), true);
        check(&json!({"matchLabels": {"app": "train"}}), true);
        check(
            &json!({"matchLabels": {"app": "train", "tier": "x"}}),
            false,
        );
        let expression = |operator: &str, key: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        check(&expression("In", "app", &["serve", "train"]), true);
        check(&expression("In", "tier", &["x"]), false);
        check(&expression("NotIn", "app", &["train"]), false);
        check(&expression("NotIn", "tier", &["x"]), true);
        check(
            &json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
            true,
        );
        check(
            &json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
            false,
        );
    }
}
