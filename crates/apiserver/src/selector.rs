//! Label and field selectors: parsing what clients send, and matching objects. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::json::Path;

/// Why a selector cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    #[error("unable to parse requirement {0:?} of the label selector")]
    Label(String),
    #[error("invalid field selector {0:?}; can't understand it")]
    Field(String),
    #[error("field label not supported: {0}")]
    UnknownField(String),
}

/// A conjunction of label requirements; empty matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Missing,
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        split_outside_parentheses(text)
            .map(Requirement::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Reads a `metav1.LabelSelector`. `None` selects nothing: the selector is missing or has an unknown operator.
    pub(crate) fn from_object(selector: Option<&Value>) -> Option<Self> {
        let selector = selector?;
        let mut requirements = Vec::new();
        for (key, value) in selector.map("matchLabels").into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement {
                key: key.clone(),
                test: Test::In([value].into()),
            });
        }
        for expression in selector.list("matchExpressions") {
            let values = expression.list("values").iter();
            let values = values
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let test = match expression.text("operator") {
                "In" => Test::In(values),
                "NotIn" => Test::NotIn(values),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Missing,
                _ => return None,
            };
            requirements.push(Requirement {
                key: expression.text("key").to_owned(),
                test,
            });
        }
        Some(Self(requirements))
    }

    pub(crate) fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels
                .and_then(|l| l.get(&requirement.key))
                .and_then(Value::as_str);
            requirement.test.holds(value)
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Requirement {
    fn parse(requirement: &str) -> Result<Self, SelectorError> {
        let refuse = || SelectorError::Label(requirement.to_owned());
        let trimmed = requirement.trim();
        let (key, test) = if let Some(open) = trimmed.find('(') {
            let (head, tail) = trimmed.split_at(open);
            let inner = tail.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
            let inner = inner.ok_or_else(refuse)?;
            let values = inner.split(',').map(|v| v.trim().to_owned()).collect();
            let mut words = head.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(key), Some("in"), None) => (key, Test::In(values)),
                (Some(key), Some("notin"), None) => (key, Test::NotIn(values)),
                _ => return Err(refuse()),
            }
        } else if let Some((key, value)) = trimmed.split_once("!=") {
            (key, Test::NotIn(single(value)))
        } else if let Some((key, value)) = trimmed.split_once("==") {
            (key, Test::In(single(value)))
        } else if let Some((key, value)) = trimmed.split_once('=') {
            (key, Test::In(single(value)))
        } else if let Some((key, value)) = trimmed.split_once('>') {
            (
                key,
                Test::Greater(value.trim().parse().map_err(|_| refuse())?),
            )
        } else if let Some((key, value)) = trimmed.split_once('<') {
            (key, Test::Less(value.trim().parse().map_err(|_| refuse())?))
        } else if let Some(key) = trimmed.strip_prefix('!') {
            (key, Test::Missing)
        } else {
            (trimmed, Test::Exists)
        };
        let key = key.trim();
        let values_are_plain = match &test {
            Test::In(values) | Test::NotIn(values) => values.iter().all(|v| is_plain(v)),
            _ => true,
        };
        if key.is_empty() || !is_plain(key) || !values_are_plain {
            return Err(refuse());
        }
        Ok(Self {
            key: key.to_owned(),
            test,
        })
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|v| values.contains(v)),
            Self::NotIn(values) => !value.is_some_and(|v| values.contains(v)),
            Self::Exists => value.is_some(),
            Self::Missing => value.is_none(),
            Self::Greater(bound) => number().is_some_and(|n| n > *bound),
            Self::Less(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

fn single(value: &str) -> BTreeSet<String> {
    [value.trim().to_owned()].into()
}

fn is_plain(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
}

fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .filter(|part| !part.trim().is_empty())
}

/// A conjunction of field comparisons; empty matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Parses `a=b,c!=d` (with `\` escapes); each field must be in `allowed` or a metadata name.
    pub(crate) fn parse(
        text: &str,
        allowed: &[&str],
        namespaced: bool,
    ) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            let term = Term::parse(&part)?;
            let known = term.field == "metadata.name"
                || (namespaced && term.field == "metadata.namespace")
                || allowed.contains(&term.field.as_str());
            if !known {
                return Err(SelectorError::UnknownField(term.field));
            }
            terms.push(term);
        }
        Ok(Self(terms))
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| {
            let same = match object.at(&term.field) {
                Some(Value::String(text)) => *text == term.value,
                Some(Value::Object(source)) => {
                    // `source` selects by the reporting component, whichever API wrote it.
                    let component = source.get("component").and_then(Value::as_str);
                    let component = component.unwrap_or_else(|| object.text("reportingComponent"));
                    component == term.value
                }
                Some(Value::Bool(flag)) => term.value == if *flag { "true" } else { "false" },
                Some(other) => term.value.parse().is_ok_and(|value: Value| *other == value),
                None => term.value.is_empty() || (term.value == "false" && is_flag(&term.field)),
            };
            same == term.equal
        })
    }

    /// The same selector over objects whose fields have other names.
    pub(crate) fn renamed(mut self, name: fn(&str) -> String) -> Self {
        for term in &mut self.0 {
            term.field = name(&term.field);
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Booleans are absent when false, so an absent one must compare equal to "false".
fn is_flag(field: &str) -> bool {
    matches!(field, "spec.hostNetwork" | "spec.unschedulable")
}

impl Term {
    fn parse(text: &str) -> Result<Self, SelectorError> {
        let (field, value, equal) = if let Some((field, value)) = text.split_once("!=") {
            (field, value, false)
        } else if let Some((field, value)) = text.split_once("==") {
            (field, value, true)
        } else if let Some((field, value)) = text.split_once('=') {
            (field, value, true)
        } else {
            return Err(SelectorError::Field(text.to_owned()));
        };
        let value = unescape(value).ok_or_else(|| SelectorError::Field(text.to_owned()))?;
        Ok(Self {
            field: field.to_owned(),
            value,
            equal,
        })
    }
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.push(chars.next().filter(|n| matches!(n, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            _ => plain.push(c),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels_match(selector: &str, labels: &Value) -> bool {
        LabelSelector::parse(selector)
            .unwrap()
            .matches(labels.as_object())
    }

    #[test]
    fn label_selectors_combine_equality_sets_existence_and_order() {
        let labels = json!({"app": "a", "tier": "web", "n": "5"});
        for (selector, expected) in [
            ("", true),
            ("app=a", true),
            ("app==a,tier=web", true),
            ("app=b", false),
            ("app!=b", true),
            ("gone!=x", true),
            ("app in (a, b),tier notin (db)", true),
            ("app in (b)", false),
            ("gone notin (b)", true),
            ("tier", true),
            ("!tier", false),
            ("!gone", true),
            ("n>4", true),
            ("n<5", false),
        ] {
            assert_eq!(labels_match(selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn broken_label_selectors_are_refused() {
        for broken in ["a in", "a in (b", "a b", "=c", "a=b=c", "a>x", "a in (b) c"] {
            assert!(LabelSelector::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn an_empty_selector_object_selects_all_and_a_missing_one_nothing() {
        assert!(
            LabelSelector::from_object(Some(&json!({})))
                .unwrap()
                .matches(None)
        );
        assert!(LabelSelector::from_object(None).is_none());
        let by_set = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]});
        let by_set = LabelSelector::from_object(Some(&by_set)).unwrap();
        assert!(by_set.matches(json!({"a": "b"}).as_object()));
        assert!(!by_set.matches(json!({"a": "c"}).as_object()));
    }

    #[test]
    fn field_selectors_compare_text_and_treat_missing_as_empty() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n,1"}});
        let matches = |selector: &str| {
            let allowed = ["spec.nodeName", "status.phase", "spec.hostNetwork"];
            FieldSelector::parse(selector, &allowed, true).map(|s| s.matches(&pod))
        };
        assert_eq!(matches("metadata.name=p,spec.nodeName!=x"), Ok(true));
        assert_eq!(matches(r"spec.nodeName=n\,1"), Ok(true));
        assert_eq!(matches("status.phase="), Ok(true));
        assert_eq!(matches("status.phase!="), Ok(false));
        assert_eq!(matches("spec.hostNetwork=false"), Ok(true));
        let unknown = SelectorError::UnknownField("spec.x".to_owned());
        assert_eq!(matches("spec.x=1"), Err(unknown));
        assert!(matches("nonsense").is_err());
    }
}
