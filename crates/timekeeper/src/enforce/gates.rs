//! Which of the pods that wait for budget are admitted when there is budget again.
//!
//! The oldest pods come first, and only as many as the remaining budget can pay for some minutes. Otherwise a thousand
//! waiting pods would use up a remaining hour before the timekeeper could charge them.

use std::collections::BTreeMap;

use gpushare_kube::enforcement::Subject;
use gpushare_kube::gpu_budget::select::chain;
use gpushare_kube::gpu_budget::{GpuBudget, WhenExhausted};
use kube::ResourceExt;

use super::plan::{Payer, is_exhausted};

/// The remaining budget must pay this many seconds for all pods that run, are about to run, or are admitted. Each pod
/// counts as if it held whole cards of the highest price, because it is not known yet where it will run.
const PAID_SECONDS: i64 = 300;

/// The use of one budget.
#[derive(Debug, Default)]
struct Use {
    /// GPU-seconds promised to pods that are not kept waiting.
    promised: i64,
    pods: u32,
}

pub(super) fn to_open<'a>(
    budgets: &'a BTreeMap<String, GpuBudget>,
    live: &[(&Subject, Payer<'a>)],
    waiting: &[(&'a Subject, Payer<'a>)],
) -> Vec<(&'a Subject, Payer<'a>)> {
    if waiting.is_empty() {
        return Vec::new();
    }
    let by_name: BTreeMap<String, &GpuBudget> = budgets
        .iter()
        .map(|(name, budget)| (name.clone(), budget))
        .collect();
    // The budgets that count the pod, beginning with the one that pays.
    let counting = |payer: &'a GpuBudget| chain(&by_name, payer).unwrap_or_else(|_| vec![payer]);
    let mut uses: BTreeMap<String, Use> = BTreeMap::new();
    for (pod, payer) in live {
        if let Some(payer) = payer {
            promise(&mut uses, &counting(payer), pod);
        }
    }
    let mut opened = Vec::new();
    for (pod, payer) in waiting {
        let Some(budget) = payer else {
            opened.push((*pod, *payer));
            continue;
        };
        if is_exhausted(budget) {
            // The budget no longer makes new pods wait.
            if budget.spec.when_exhausted != WhenExhausted::ThrottleNew {
                opened.push((*pod, *payer));
            }
            continue;
        }
        let counting = counting(budget);
        let paid = counting.iter().all(|budget| pays(&uses, budget, pod));
        // A single pod may always use up the rest.
        let alone = uses
            .get(&budget.name_any())
            .is_none_or(|uses| uses.pods == 0);
        if paid || alone {
            promise(&mut uses, &counting, pod);
            opened.push((*pod, *payer));
        }
    }
    opened
}

fn promise(uses: &mut BTreeMap<String, Use>, counting: &[&GpuBudget], pod: &Subject) {
    for budget in counting {
        let uses = uses.entry(budget.name_any()).or_default();
        uses.promised = uses.promised.saturating_add(needs(pod, budget));
        uses.pods = uses.pods.saturating_add(1);
    }
}

fn pays(uses: &BTreeMap<String, Use>, budget: &GpuBudget, pod: &Subject) -> bool {
    let status = budget.status.as_ref();
    let Some(remaining) = status.and_then(|status| status.remaining_seconds) else {
        return true;
    };
    let promised = uses.get(&budget.name_any()).map_or(0, |uses| uses.promised);
    promised.saturating_add(needs(pod, budget)) <= remaining
}

/// The most GPU-seconds that the pod can use in `PAID_SECONDS`.
fn needs(pod: &Subject, budget: &GpuBudget) -> i64 {
    let prices = budget.spec.prices.iter();
    // Models that are not listed cost 1.
    let dearest = prices.map(|price| rounded_up(&price.price)).max();
    let dearest = dearest.unwrap_or(1).max(1);
    i64::from(pod.cards)
        .saturating_mul(dearest)
        .saturating_mul(PAID_SECONDS)
}

/// A price in whole GPU-seconds. The API server has validated its format.
fn rounded_up(price: &str) -> i64 {
    let (whole, part) = price.split_once('.').unwrap_or((price, ""));
    let whole: i64 = whole.parse().unwrap_or(1);
    whole + i64::from(part.bytes().any(|digit| digit != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_rounded_up() {
        for (price, expected) in [("1", 1), ("2.5", 3), ("2.000", 2), ("0.4", 1), ("0", 0)] {
            assert_eq!(rounded_up(price), expected, "{price}");
        }
    }
}
