//! The answers as JSON, and their schemas, in which the comments on the fields are descriptions. Amounts are GPU-seconds
//! as decimal texts, which stay exact even in programs whose numbers are not. Times are RFC 3339 in UTC.

use std::fmt;

use gpushare_kube::gpu_budget::WhenExhausted;
use gpushare_ledger::policy::Exhaustion;
use gpushare_ledger::{Seconds, money};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// GPU-seconds as a decimal text, exact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Amount(
    #[schemars(regex(pattern = r"^-?[0-9]+(\.[0-9]{1,6})?$"))] pub(super) String,
);

impl From<money::Amount> for Amount {
    fn from(amount: money::Amount) -> Self {
        Self(amount.exact())
    }
}

impl From<money::Rate> for Amount {
    fn from(rate: money::Rate) -> Self {
        Self(rate.exact())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline, extend("format" = "date-time"))]
pub(super) struct Time(pub(super) String);

/// How a budget stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Balance {
    /// The namespace that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) namespace: Option<String>,
    pub(super) budget: String,
    pub(super) when_exhausted: WhenExhausted,
    pub(super) amount: Amount,
    pub(super) granted: Amount,
    pub(super) carried_over: Amount,
    pub(super) used: Amount,
    pub(super) held: Amount,
    pub(super) remaining: Amount,
    pub(super) exhausted: bool,
    pub(super) exhausts_at: Option<Time>,
    pub(super) period_starts: Option<Time>,
    pub(super) period_ends: Option<Time>,
    /// The moment for which all this holds.
    pub(super) at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Balances {
    pub(super) budgets: Vec<Balance>,
}

/// What a pod should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Pod {
    pub(super) namespace: String,
    #[serde(rename = "pod")]
    pub(super) name: String,
    /// Null if no budget pays.
    pub(super) budget: Option<BudgetSummary>,
    pub(super) over_budget: bool,
    pub(super) evict_at: Option<Time>,
}

/// How a budget stands, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Short")]
pub(super) struct BudgetSummary {
    pub(super) name: String,
    pub(super) when_exhausted: WhenExhausted,
    pub(super) remaining: Amount,
    /// Whole GPU-seconds, for programs that count.
    pub(super) remaining_seconds: Seconds,
    pub(super) exhausted: bool,
    pub(super) exhausts_at: Option<Time>,
    pub(super) period_ends: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Statement {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) budget: Option<String>,
    pub(super) from: Option<Time>,
    pub(super) to: Option<Time>,
    pub(super) lines: Vec<Line>,
    pub(super) total_seconds: Seconds,
    pub(super) total: Amount,
    /// Only in the statement of a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Grant>")]
    pub(super) grants: Option<Vec<Grant>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Line {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) pod_uid: String,
    pub(super) from: Option<Time>,
    pub(super) to: Option<Time>,
    pub(super) seconds: Seconds,
    /// GPU-seconds for each second.
    pub(super) rate: Amount,
    pub(super) formula: String,
    pub(super) amount: Amount,
    pub(super) cards: Vec<HeldCard>,
}

/// What a pod holds of a card. If memory or compute is 0, it was not requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Grant {
    pub(super) id: String,
    pub(super) budget: String,
    pub(super) amount: Amount,
    pub(super) author: String,
    pub(super) reason: String,
    /// The period that it is for.
    pub(super) period_starts: Option<Time>,
    pub(super) granted_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Posting {
    pub(super) id: i64,
    pub(super) entry: i64,
    #[schemars(extend("enum" = ["charge", "reversal", "issue", "rollover", "grant", "carry"]))]
    pub(super) kind: String,
    pub(super) written_at: Option<Time>,
    pub(super) from: Side,
    pub(super) to: Side,
    pub(super) amount: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ChargedTime")]
    pub(super) held: Option<ChargedTime>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Side {
    pub(super) account: String,
    pub(super) name: String,
    /// Only for the account of a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub(super) period_starts: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Held")]
pub(super) struct ChargedTime {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) pod_uid: String,
    pub(super) from: Option<Time>,
    pub(super) to: Option<Time>,
    pub(super) rate: Amount,
}

/// `None` for a moment outside of the calendar's range.
pub(super) fn time(at: Seconds) -> Option<Time> {
    let moment = Timestamp::from_second(at).ok()?;
    Some(Time(moment.to_string()))
}

/// As it is written into a budget.
pub(super) fn when_exhausted(exhaustion: Exhaustion) -> WhenExhausted {
    match exhaustion {
        Exhaustion::Demote => WhenExhausted::Demote,
        Exhaustion::ThrottleNew => WhenExhausted::ThrottleNew,
        Exhaustion::EvictAfter(_) => WhenExhausted::EvictWithGrace,
    }
}
