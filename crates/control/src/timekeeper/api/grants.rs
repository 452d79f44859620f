//! Grants: more for a budget by somebody's decision. The only requests that change anything.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use gpushare_kube::gpu_budget::AmountText;
use gpushare_timekeeper::journal::Leg;
use gpushare_timekeeper::money::Amount;
use gpushare_timekeeper::store::{Change, Grant, Outcome};
use gpushare_timekeeper::{Seconds, policy};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;

use super::access::Caller;
use super::answers::{self, time};
use super::problem::Problem;
use super::routes::Names;
use super::{Api, balance, rights};

const LARGEST_BODY: usize = 16 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST_ID: usize = 128;
const LONGEST_REASON: usize = 1024;
/// As for the amount of a budget.
const MOST_SECONDS: i64 = 1_000_000_000_000;

/// What somebody wants. Who they are is not theirs to say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    id: String,
    amount: AmountText,
    reason: String,
}

pub(super) async fn grant(
    State(api): State<Api>,
    caller: Caller,
    Names { budget, .. }: Names,
    body: Body,
) -> Result<(StatusCode, Json<answers::Grant>), Problem> {
    api.require(&caller, &rights::grant(&budget)).await?;
    let wanted = read(body).await?;
    let amount = wanted.amount()?;
    let Some(found) = api.0.books.budget(&budget) else {
        return Err(balance::no_such_budget(&budget));
    };
    let now = api.0.books.now();
    let slot = found.policy.schedule.slot(now)?.start;
    let grant = Grant {
        // Of this budget alone: whoever grants for one learns nothing of another's.
        id: format!("{budget}/{}", wanted.id),
        leg: Leg { budget, slot },
        amount,
        author: caller.name().to_owned(),
        reason: wanted.reason,
    };
    api.write(grant, now).await
}

impl Api {
    async fn write(
        &self,
        grant: Grant,
        now: Seconds,
    ) -> Result<(StatusCode, Json<answers::Grant>), Problem> {
        let change = Change::Grant(grant.clone());
        if self.0.books.record(change).await? == Outcome::Applied {
            self.0.metrics.granted();
            let Grant {
                id,
                leg,
                author,
                reason,
                ..
            } = &grant;
            tracing::info!(target: "audit", action = "grant", user = author, budget = leg.budget, id,
                gpu_seconds = grant.amount.exact(), reason, "a budget was granted more");
            return Ok((StatusCode::CREATED, Json(answer(now, &grant))));
        }
        let known = self.0.ledger.grants(&grant.leg.budget).await?;
        let known = known.iter().find(|(_, known)| known.id == grant.id);
        match known {
            Some((at, known)) if known.amount == grant.amount && known.reason == grant.reason => {
                Ok((StatusCode::OK, Json(answer(*at, known))))
            }
            _ => {
                let message = "id: this budget has another grant of this id: choose a new id, or repeat the \
                     amount and the reason of that one";
                Err(Problem::conflict(message.to_owned()))
            }
        }
    }
}

pub(super) fn answer(at: Seconds, grant: &Grant) -> answers::Grant {
    let budget = &grant.leg.budget;
    let own = grant.id.strip_prefix(budget.as_str());
    let own = own.and_then(|rest| rest.strip_prefix('/'));
    answers::Grant {
        id: own.unwrap_or(&grant.id).to_owned(),
        budget: budget.clone(),
        amount: grant.amount.exact(),
        author: grant.author.clone(),
        reason: grant.reason.clone(),
        period_starts: time(grant.leg.slot),
        granted_at: time(at),
    }
}

impl Wanted {
    fn amount(&self) -> Result<Amount, Problem> {
        let plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
        if self.id.is_empty() || self.id.len() > LONGEST_ID || !self.id.chars().all(plain) {
            let message = format!(
                "write 1 to {LONGEST_ID} letters, digits, dashes, dots and underscores; the same id is granted once"
            );
            return Err(Problem::invalid("id", message));
        }
        let reason = self.reason.trim();
        if reason.is_empty()
            || self.reason.len() > LONGEST_REASON
            || reason.chars().any(char::is_control)
        {
            let message = format!("say why, in one line of at most {LONGEST_REASON} bytes");
            return Err(Problem::invalid("reason", message));
        }
        let amount = policy::amount(&self.amount);
        let amount = amount.map_err(|error| Problem::invalid("amount", error))?;
        if amount.whole_seconds() > MOST_SECONDS {
            let message = format!("at most {MOST_SECONDS} GPU-seconds can be granted at once");
            return Err(Problem::invalid("amount", message));
        }
        Ok(amount)
    }
}

async fn read(body: Body) -> Result<Wanted, Problem> {
    let read = tokio::time::timeout(PATIENCE, Limited::new(body, LARGEST_BODY).collect()).await;
    let read = read.map_err(|_elapsed| {
        Problem::invalid("the body", format!("it did not arrive within {PATIENCE:?}"))
    })?;
    let body = read.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            Problem::too_large(format!("the body is larger than {LARGEST_BODY} bytes"))
        } else {
            Problem::invalid("the body", format!("it cannot be read: {error}"))
        }
    })?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| {
        let message = format!(
            "{error}: write a JSON object with id, amount (such as \"20h\", or GPU-seconds as a number) and reason; \
             the author is whoever the token belongs to"
        );
        Problem::invalid("the body", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(body: serde_json::Value) -> Result<Amount, Problem> {
        let wanted: Wanted = serde_json::from_value(body).unwrap();
        wanted.amount()
    }

    #[test]
    fn a_grant_names_itself_and_says_why() {
        let good = serde_json::json!({"id": "a-1", "amount": "20h", "reason": "deadline"});
        assert_eq!(wanted(good.clone()).unwrap().whole_seconds(), 72_000);
        for (field, value) in [
            ("id", serde_json::json!("")),
            ("id", serde_json::json!("a/b")),
            ("id", serde_json::json!("x".repeat(129))),
            ("amount", serde_json::json!(0)),
            ("amount", serde_json::json!(-5)),
            ("amount", serde_json::json!("-5h")),
            ("amount", serde_json::json!(1_000_000_000_001_i64)),
            ("amount", serde_json::json!(i64::MAX)),
            ("reason", serde_json::json!(" ")),
            ("reason", serde_json::json!("a\nb")),
            ("reason", serde_json::json!("x".repeat(1025))),
        ] {
            let mut wrong = good.clone();
            wrong[field] = value;
            let problem = format!("{:?}", wanted(wrong.clone()).unwrap_err());
            assert!(
                problem.contains(&format!("\"{field}: ")),
                "{wrong} {problem}"
            );
        }
    }
}
