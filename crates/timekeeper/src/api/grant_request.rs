//! A grant as the caller requests it.

use gpushare_kube::gpu_budget::AmountText;
use gpushare_ledger::money::Amount;
use gpushare_ledger::policy;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use thiserror::Error;

const LONGEST_ID: usize = 128;
const LONGEST_REASON: usize = 1024;
/// The same limit as for the amount of a budget.
const MOST_SECONDS: i64 = 1_000_000_000_000;

/// What the caller wants. The caller cannot state its own identity here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRequest {
    pub id: String,
    pub amount: Amount,
    pub reason: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a grant")]
#[schemars(rename = "GrantRequest")]
pub(super) struct GrantRequestBody {
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,128}$"))]
    id: String,
    /// GPU-seconds, or a duration such as 20h, 1d12h or 90m
    #[schemars(schema_with = "amount")]
    amount: AmountText,
    #[schemars(length(min = 1, max = LONGEST_REASON))]
    reason: String,
}

fn amount(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]})
}

/// Which field is wrong, and why.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{field}: {message}")]
pub struct GrantRequestError {
    pub field: &'static str,
    pub message: String,
}

impl GrantRequest {
    pub fn parse(body: &[u8]) -> Result<Self, GrantRequestError> {
        let wrong = |field, message| GrantRequestError { field, message };
        let written: GrantRequestBody = serde_json::from_slice(body).map_err(|error| {
            let message = format!(
                "{error}: write a JSON object with id, amount (such as \"20h\", or GPU-seconds as a number) and reason; \
                 the author is the owner of the token"
            );
            wrong("the body", message)
        })?;
        let GrantRequestBody { id, amount, reason } = written;
        let plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
        if id.is_empty() || id.len() > LONGEST_ID || !id.chars().all(plain) {
            let message = format!(
                "write 1 to {LONGEST_ID} letters, digits, dashes, dots and underscores; the same id is granted once"
            );
            return Err(wrong("id", message));
        }
        let says_nothing = reason.trim().is_empty() || reason.chars().any(char::is_control);
        if says_nothing || reason.len() > LONGEST_REASON {
            let message = format!("say why, in one line of at most {LONGEST_REASON} bytes");
            return Err(wrong("reason", message));
        }
        let amount = policy::amount(&amount).map_err(|error| wrong("amount", error.to_string()))?;
        if amount.whole_seconds() > MOST_SECONDS {
            let message = format!("at most {MOST_SECONDS} GPU-seconds can be granted at once");
            return Err(wrong("amount", message));
        }
        Ok(Self { id, amount, reason })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(body: &Value) -> Result<GrantRequest, GrantRequestError> {
        GrantRequest::parse(body.to_string().as_bytes())
    }

    #[test]
    fn a_grant_names_itself_and_says_why() {
        let good = json!({"id": "a-1", "amount": "20h", "reason": "deadline"});
        assert_eq!(parse(&good).unwrap().amount.whole_seconds(), 72_000);
        for (field, value) in [
            ("id", json!("")),
            ("id", json!("a/b")),
            ("id", json!("x".repeat(129))),
            ("amount", json!(0)),
            ("amount", json!(-5)),
            ("amount", json!("-5h")),
            ("amount", json!(1_000_000_000_001_i64)),
            ("amount", json!(i64::MAX)),
            ("reason", json!(" ")),
            ("reason", json!("a\nb")),
            ("reason", json!("x".repeat(1025))),
        ] {
            let mut wrong = good.clone();
            wrong[field] = value;
            assert_eq!(parse(&wrong).unwrap_err().field, field, "{wrong}");
        }
    }
}
