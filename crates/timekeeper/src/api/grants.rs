//! Grants: an authorized caller gives a budget more. These are the only requests that change anything.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use gpushare_ledger::Seconds;
use gpushare_ledger::journal::Leg;
use gpushare_ledger::store::{Change, Grant, Outcome};
use http_body_util::{BodyExt, Limited};

use super::access::Caller;
use super::answers::{self, time};
use super::grant_request::GrantRequest;
use super::problem::Problem;
use super::routes::Names;
use super::{Api, balance, rights};

const LARGEST_BODY: usize = 16 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn grant(
    State(api): State<Api>,
    caller: Caller,
    Names { budget, .. }: Names,
    body: Body,
) -> Result<(StatusCode, Json<answers::Grant>), Problem> {
    api.require(&caller, &rights::grant(&budget)).await?;
    let request = read(body).await?;
    let Some(found) = api.0.books.budget(&budget) else {
        return Err(balance::no_such_budget(&budget));
    };
    let now = api.0.books.now();
    let slot = found.policy.schedule.slot(now)?.start;
    let grant = Grant {
        // Ids belong to one budget: a caller who grants for one learns nothing about the ids of another.
        id: format!("{budget}/{}", request.id),
        leg: Leg { budget, slot },
        amount: request.amount,
        author: caller.name().to_owned(),
        reason: request.reason,
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
            tracing::info!(target: gpushare_daemon::logging::AUDIT, action = "grant", user = author, budget = leg.budget, id,
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
        amount: grant.amount.into(),
        author: grant.author.clone(),
        reason: grant.reason.clone(),
        period_starts: time(grant.leg.slot),
        granted_at: time(at),
    }
}

async fn read(body: Body) -> Result<GrantRequest, Problem> {
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
    Ok(GrantRequest::parse(&body.to_bytes())?)
}
