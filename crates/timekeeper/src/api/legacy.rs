//! The paths of the predecessor, for callers that have not changed yet. They only read: usage is metered, and only
//! authorized callers grant more.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use gpushare_ledger::money::Amount;

use super::Api;
use super::access::Caller;
use super::problem::Problem;
use super::routes::Names;

/// `budget_available`, `budget` and `budget_remaining`, in GPU-minutes.
pub(super) async fn budget(
    State(api): State<Api>,
    caller: Caller,
    Names { namespace, .. }: Names,
) -> Result<Response, Problem> {
    api.require_balance(&caller, &namespace).await?;
    let stand = api.stand_of_namespace(&namespace).await?;
    let (available, budget, remaining) = match stand {
        Some(stand) => {
            let left = stand.standing.remaining;
            let supplied = left.plus(stand.supply.used)?.plus(stand.budget.held)?;
            (!stand.standing.exhausted, minutes(supplied), minutes(left))
        }
        // No budget limits it.
        None => (true, "null".to_owned(), "null".to_owned()),
    };
    let body = format!(
        r#"{{"budget_available":{available},"budget":{budget},"budget_remaining":{remaining}}}"#
    );
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((json, body).into_response())
}

pub(super) async fn report() -> Problem {
    Problem::gone(
        "usage is no longer reported: the timekeeper meters it from the API server. Remove the caller; nothing was charged",
    )
}

pub(super) async fn increase() -> Problem {
    Problem::gone(
        "budgets are not increased here any more: use kubectl gpushare budget grant, or POST /v1/budgets/{budget}/grants. \
         Nothing was changed",
    )
}

/// A JSON number with three decimals, rounded down; never below zero, as the predecessor's.
fn minutes(amount: Amount) -> String {
    let thousandths = amount.micros().max(0) / 60_000;
    format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_numbers_with_three_decimals() {
        let check = |micros: i64, text: &str| {
            assert_eq!(minutes(Amount::from_micros(micros)), text);
        };
        check(0, "0.000");
        check(59_999, "0.000");
        check(90_000_000, "1.500");
        check(72_000_000_000, "1200.000");
        check(-5_000_000, "0.000");
    }
}
