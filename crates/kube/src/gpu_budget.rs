//! `GpuBudget`: how much GPU time namespaces may use, as administrators write it.
//!
//! This is the object as the API server stores it. The API server checks its texts by the schema and its rules, and
//! the timekeeper resolves them into amounts. Which budget a namespace belongs to is in [`select`].

#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats each struct inside a function"
)]

pub mod publish;
mod schema;
pub mod select;

pub use gpushare_core::names::condition;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// GPU time for a set of namespaces, for each period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "gpushare.io",
    version = "v1alpha1",
    kind = "GpuBudget",
    plural = "gpubudgets",
    shortname = "gb",
    category = "gpushare",
    status = "GpuBudgetStatus",
    derive = "PartialEq",
    doc = "How much GPU time a set of namespaces may use in each period, and what happens when it is used up.",
    validation = Rule::new("!has(self.spec.parent) || self.spec.parent != self.metadata.name")
        .message("a budget cannot be its own parent: name another budget in spec.parent, or leave it out"),
    printcolumn(name = "Amount", type_ = "string", json_path = ".spec.amount"),
    printcolumn(name = "Period", type_ = "string", json_path = ".spec.period.kind"),
    printcolumn(name = "Used", type_ = "string", json_path = ".status.used"),
    printcolumn(name = "Held", type_ = "string", json_path = ".status.held", priority = 1),
    printcolumn(name = "Remaining", type_ = "string", json_path = ".status.remaining"),
    printcolumn(name = "Exhausted", type_ = "boolean", json_path = ".status.exhausted"),
    printcolumn(name = "Exhausts", type_ = "string", json_path = ".status.exhaustsAt"),
    printcolumn(name = "Resets", type_ = "string", json_path = ".status.periodEnd", priority = 1),
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parent", priority = 1),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.graceSeconds) ? self.whenExhausted == 'EvictWithGrace' : true")
        .message("graceSeconds is the time before an eviction: write whenExhausted: EvictWithGrace, or leave graceSeconds out"),
    validation = Rule::new("self.period.kind != 'Rolling' || !has(self.rolloverCap)")
        .message("a rolling window has no end from which something could be carried over: leave rolloverCap out, or use Month, Week or Day")
)]
pub struct GpuBudgetSpec {
    /// Which namespaces pay from this budget. A budget without them only counts what its children use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Namespaces>,
    /// The budget that this one is a part of. What is charged here counts there too, and when nothing remains there, nothing
    /// remains here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub parent: Option<String>,
    /// GPU time for each period: whole GPU-seconds, or a duration such as `20h`, `1d12h` or `90m`. An hour is
    /// one whole card of price 1 for an hour.
    #[schemars(schema_with = "schema::amount")]
    pub amount: AmountText,
    /// What a second on a card of a model costs, in GPU-seconds. The longest matching model applies. Models
    /// that are not listed cost 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["model"])
    )]
    pub prices: Vec<ModelPrice>,
    /// How much of a card a share counts as: with Max the larger of its fractions of memory and compute, with Weighted
    /// their weighted mean. A fraction that was not requested counts as much as the other.
    #[serde(default)]
    #[schemars(schema_with = "schema::formula")]
    pub formula: Formula,
    /// When a new period begins. Month, Week (from Monday) and Day begin at midnight in the time zone.
    /// Rolling counts what was used in the last `window`.
    #[serde(default)]
    #[schemars(schema_with = "schema::period")]
    pub period: Period,
    /// How much of the remainder of a period is carried over to the next one; nothing if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::amount")]
    pub rollover_cap: Option<AmountText>,
    /// What happens when nothing remains. Demote: running and new pods rank below all others. ThrottleNew: running pods
    /// rank below all others, and new pods wait. EvictWithGrace: like Demote, and running pods are evicted after
    /// graceSeconds.
    #[serde(default)]
    #[schemars(schema_with = "schema::when_exhausted")]
    pub when_exhausted: WhenExhausted,
    /// How long pods may continue to run before they are evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub grace_seconds: Option<i64>,
}

/// Which namespaces: by exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.names), has(self.team), has(self.selector)].filter(given, given).size() == 1")
        .message("choose namespaces by exactly one of names, team and selector")
)]
pub struct Namespaces {
    /// These namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 256),
        inner(length(min = 1, max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub names: Option<Vec<String>>,
    /// All namespaces with the label `gpushare.io/team` of this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub team: Option<String>,
    /// All namespaces whose labels match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::selector")]
    pub selector: Option<LabelSelector>,
}

/// An amount as written: whole GPU-seconds or a duration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AmountText {
    Seconds(i64),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    /// The model as the node's inventory names it, or its beginning followed by `*`.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(
        validation = Rule::new("!self.contains('*') || self.indexOf('*') == self.size() - 1")
            .message("a model is a whole name, or the beginning of one followed by a single *")
    )]
    pub model: String,
    /// GPU-seconds for a second on the whole card, with up to six decimals.
    #[schemars(length(max = 16))]
    #[x_kube(
        validation = Rule::new(r"self.matches('^[0-9]{1,6}([.][0-9]{1,6})?$')")
            .message("a price is a number in quotes with at most six digits before and six after the point, such as \"2.5\"")
    )]
    pub price: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Formula {
    #[serde(default)]
    pub kind: FormulaKind,
    /// The weight of the memory's share, with `Weighted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// The weight of the compute's share, with `Weighted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FormulaKind {
    #[default]
    Max,
    Weighted,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Period {
    #[serde(default)]
    pub kind: PeriodKind,
    /// The time zone in which periods begin, by its name in the IANA database.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// The length of a rolling window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
}

impl Default for Period {
    fn default() -> Self {
        Self {
            kind: PeriodKind::default(),
            time_zone: utc(),
            window: None,
        }
    }
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Calendar periods begin at midnight of the time zone; weeks on Monday.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PeriodKind {
    #[default]
    Month,
    Week,
    Day,
    Rolling,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenExhausted {
    /// Running and new pods rank below all others.
    #[default]
    Demote,
    /// Running pods rank below all others; new ones wait until there is budget again.
    ThrottleNew,
    /// Like `Demote`, and running pods are evicted after the grace period.
    EvictWithGrace,
}

/// What the timekeeper reports about a budget. Texts are for people, numbers for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuBudgetStatus {
    /// The generation of the object to which these numbers belong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the current period began. For a rolling window: when it begins now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub period_start: Option<Time>,
    /// When the next period begins; not set for a rolling window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub period_end: Option<Time>,
    /// Charged in this period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    /// What running pods have accrued since their last charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// What is left of the amount, what was carried over and what was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<String>,
    /// `used` in whole GPU-seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_seconds: Option<i64>,
    /// `held` in whole GPU-seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_seconds: Option<i64>,
    /// `remaining` in whole GPU-seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_seconds: Option<i64>,
    /// Nothing remains of this budget or of one of its ancestors.
    #[serde(default)]
    pub exhausted: bool,
    /// When nothing will remain if usage continues as now. Not set if the period ends before, or if nothing remains
    /// already: then the transition time of the condition `Exhausted` says since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub exhausts_at: Option<Time>,
    /// Whether the budget is valid and charged (`Ready`), and whether nothing remains (`Exhausted`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests;
