//! The Events for the owners of pods: what has happened, and what they can do.

use gpushare_core::names::event;
use gpushare_kube::enforcement::{Marks, Stage, Subject};
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::notice::Severity;
use kube::ResourceExt;

use super::plan::Payer;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Say {
    pub reason: &'static str,
    pub severity: Severity,
    pub message: String,
}

fn warning(reason: &'static str, message: String) -> Say {
    Say {
        reason,
        severity: Severity::Warning,
        message,
    }
}

fn normal(message: String) -> Say {
    Say {
        reason: event::BACK_IN_BUDGET,
        severity: Severity::Normal,
        message,
    }
}

pub(super) fn marked(pod: &Subject, marked: &Marks, payer: Payer<'_>) -> Say {
    let Some(over) = &marked.over else {
        let effect = match (pod.low_class, pod.stage) {
            (false, _) => "this pod ranks by its priority again",
            (true, Stage::Placed) => {
                "this pod ranks as an ordinary pod again, although its class remains gpushare-over-budget"
            }
            (true, _) => {
                "this pod ranks as an ordinary pod, but its class remains gpushare-over-budget: it evicts nobody, and the \
                 scheduler tries other pods first; delete it so that its controller recreates it"
            }
        };
        return normal(format!("{}: {effect}", again(payer)));
    };
    let help = help(payer);
    let message = match marked.evict_at {
        Some(at) => format!(
            "budget {over} is used up: this pod will be evicted at {at} if that does not change, so save its work. \
             Until then it is evicted first when pods within their budget need its card. {help}"
        ),
        None => format!(
            "budget {over} is used up: this pod continues while nobody else needs its card, and is evicted first when pods \
             within their budget need it. {help}"
        ),
    };
    warning(event::OVER_BUDGET, message)
}

pub(super) fn opened(payer: Payer<'_>) -> Say {
    normal(format!("{}: this pod is scheduled now", again(payer)))
}

pub(super) fn evicted(payer: Payer<'_>) -> Say {
    let message = format!(
        "evicted: {} is used up, and the grace period is over. {}",
        named(payer),
        help(payer)
    );
    warning(event::BUDGET_EVICTION, message)
}

/// A disruption budget blocked the eviction.
pub(super) fn blocked(why: &str) -> Say {
    let message = format!(
        "the budget of GPU time is used up and the grace period is over, but a disruption budget protects this pod ({why}); \
         the timekeeper will retry"
    );
    warning(event::BUDGET_EVICTION_BLOCKED, message)
}

fn named(payer: Payer<'_>) -> String {
    payer.map_or_else(
        || "the budget".to_owned(),
        |budget| format!("budget {}", budget.name_any()),
    )
}

fn again(payer: Payer<'_>) -> String {
    payer.map_or_else(
        || "no budget pays for this namespace any more".to_owned(),
        |budget| format!("budget {} has something left again", budget.name_any()),
    )
}

fn help(payer: Payer<'_>) -> String {
    let end = |budget: &GpuBudget| budget.status.as_ref()?.period_end.clone();
    payer.and_then(end).map_or_else(
        || "Ask the budget's administrator for a grant".to_owned(),
        |end| {
            format!(
                "The next period begins at {}; until then, ask the budget's administrator for a grant",
                end.0
            )
        },
    )
}
