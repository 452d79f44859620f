//! The answers as JSON. Amounts are GPU-seconds as decimal texts, which stay exact even in programs whose numbers are
//! not. Times are RFC 3339 in UTC.

use std::fmt;

use gpushare_ledger::Seconds;
use gpushare_ledger::policy::Exhaustion;
use jiff::Timestamp;
use serde::Serialize;

/// How a budget stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Balance {
    /// The namespace that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) budget: String,
    pub(super) when_exhausted: &'static str,
    pub(super) amount: String,
    pub(super) granted: String,
    pub(super) carried_over: String,
    pub(super) used: String,
    pub(super) held: String,
    pub(super) remaining: String,
    pub(super) exhausted: bool,
    pub(super) exhausts_at: Option<String>,
    pub(super) period_starts: Option<String>,
    pub(super) period_ends: Option<String>,
    /// The moment for which all this holds.
    pub(super) at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Balances {
    pub(super) budgets: Vec<Balance>,
}

/// What a pod should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    pub(super) namespace: String,
    #[serde(rename = "pod")]
    pub(super) name: String,
    /// `None` if no budget pays.
    pub(super) budget: Option<Short>,
    pub(super) over_budget: bool,
    pub(super) evict_at: Option<String>,
}

/// How a budget stands, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Short {
    pub(super) name: String,
    pub(super) when_exhausted: &'static str,
    pub(super) remaining: String,
    /// Whole GPU-seconds, for programs that count.
    pub(super) remaining_seconds: Seconds,
    pub(super) exhausted: bool,
    pub(super) exhausts_at: Option<String>,
    pub(super) period_ends: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Statement {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<String>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) lines: Vec<Line>,
    pub(super) total_seconds: Seconds,
    pub(super) total: String,
    /// Only in the statement of a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grants: Option<Vec<Grant>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) pod_uid: String,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) seconds: Seconds,
    /// GPU-seconds for each second.
    pub(super) rate: String,
    pub(super) formula: String,
    pub(super) amount: String,
    pub(super) cards: Vec<HeldCard>,
}

/// What a pod holds of a card. If memory or compute is 0, it was not requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeldCard {
    pub(super) id: String,
    pub(super) model: String,
    #[serde(rename = "memoryMiB")]
    pub(super) memory: u64,
    #[serde(rename = "ofMemoryMiB")]
    pub(super) of_memory: u64,
    pub(super) core_percent: u64,
}

impl fmt::Display for HeldCard {
    /// For a cell of a spreadsheet.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            model,
            memory,
            of_memory,
            core_percent,
        } = self;
        write!(f, "{id} ({model}")?;
        if *memory > 0 {
            write!(f, ", {memory} of {of_memory} MiB")?;
        }
        if *core_percent > 0 {
            write!(f, ", {core_percent} %")?;
        }
        f.write_str(")")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grant {
    pub(super) id: String,
    pub(super) budget: String,
    pub(super) amount: String,
    pub(super) author: String,
    pub(super) reason: String,
    /// The period that it is for.
    pub(super) period_starts: Option<String>,
    pub(super) granted_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Posting {
    pub(super) id: i64,
    pub(super) entry: i64,
    pub(super) kind: String,
    pub(super) written_at: Option<String>,
    pub(super) from: Side,
    pub(super) to: Side,
    pub(super) amount: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held: Option<Held>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    pub(super) account: String,
    pub(super) name: String,
    /// Only for the account of a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) period_starts: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Held {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) pod_uid: String,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) rate: String,
}

/// `None` for a moment outside of the calendar's range.
pub(super) fn time(at: Seconds) -> Option<String> {
    let moment = Timestamp::from_second(at).ok()?;
    Some(moment.to_string())
}

/// As it is written into a budget.
pub(super) fn when_exhausted(exhaustion: Exhaustion) -> &'static str {
    match exhaustion {
        Exhaustion::Demote => "Demote",
        Exhaustion::ThrottleNew => "ThrottleNew",
        Exhaustion::EvictAfter(_) => "EvictWithGrace",
    }
}
