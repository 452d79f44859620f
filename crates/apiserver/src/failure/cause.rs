//! Which field of an object is wrong, and how: the causes of a refusal.

use serde_json::{Map, Value};

/// `metav1.StatusCause`: which field, why.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: String,
}

impl Cause {
    fn of(reason: &'static str, field: impl Into<String>, message: String) -> Self {
        Self {
            reason,
            message,
            field: field.into(),
        }
    }

    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self::of("FieldValueRequired", field, message)
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {value}: {detail}");
        Self::of("FieldValueInvalid", field, message)
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::of("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::of(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {value}"),
        )
    }

    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, allowed: &[&str]) -> Self {
        let allowed = allowed
            .iter()
            .map(|a| format!("{a:?}"))
            .collect::<Vec<_>>()
            .join(", ");
        let message = format!("Unsupported value: {value}: supported values: {allowed}");
        Self::of("FieldValueNotSupported", field, message)
    }

    pub(crate) fn owned_by_another(message: String, field: String) -> Self {
        Self::of("FieldManagerConflict", field, message)
    }

    pub(super) fn json(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in [
            ("reason", self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ] {
            if !text.is_empty() {
                map.insert(key.to_owned(), text.into());
            }
        }
        Value::Object(map)
    }
}
