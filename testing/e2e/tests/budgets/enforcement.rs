//! What happens to pods when their budget is exhausted and when it has something left again: on the real scheduler,
//! through the real Eviction API, against everything that tenants may try.

mod demotion;
mod evasion;
mod eviction;
mod waiting;

use e2e::Team;
use serde_json::json;

use crate::SHARED;

const OVER: &str = "gpushare.io/over-budget";
const RESTORED: &str = "gpushare.io/back-in-budget";
const EVICT_AT: &str = "gpushare.io/evict-at";
const ALONE: &str = "written by the gpushare timekeeper alone";
const ASKED: &str = "gpushare_extender_requests_total{verb=\"preempt\",code=\"200\"}";

/// A team with a budget that is large enough for every test, in which `tenant` has the rights of an editor.
fn team(when_exhausted: &str, grace: Option<i64>) -> Team {
    let mut spec = json!({
        "amount": "1000h", "period": {"kind": "Rolling", "window": "7d"},
        "whenExhausted": when_exhausted,
    });
    if let Some(grace) = grace {
        spec["graceSeconds"] = json!(grace);
    }
    let team = SHARED.team(&spec);
    team.admit_tenant();
    team
}
