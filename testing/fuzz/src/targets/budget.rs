//! Budgets: an accepted budget has a positive amount, prices that can be charged, and periods without gaps.

use gpushare_kube::gpu_budget::GpuBudgetSpec;
use gpushare_ledger::money::Amount;
use gpushare_ledger::policy::Policy;
use gpushare_ledger::price::{Holding, Part, rate};

use crate::Verdict;

/// Moments near which clocks change in some time zone.
const MOMENTS: [i64; 4] = [0, 951_782_400, 1_774_746_000, 4_102_444_799];

pub(crate) fn check(data: &[u8]) -> Verdict {
    let Ok(spec) = serde_json::from_slice::<GpuBudgetSpec>(data) else {
        return Verdict::Refused;
    };
    let Ok(policy) = Policy::try_from(&spec) else {
        return Verdict::Refused;
    };
    assert!(policy.amount > Amount::ZERO);
    assert!(policy.rollover_cap >= Amount::ZERO);
    for at in MOMENTS {
        let slot = policy.schedule.slot(at).expect("an ordinary moment");
        assert!(slot.contains(at), "{slot:?} without {at}");
        let next = policy.schedule.slot(slot.end).expect("an ordinary moment");
        assert_eq!(next.start, slot.end, "periods that do not join");
        let counted = policy.schedule.counted(at).expect("an ordinary moment");
        assert!(counted.start <= slot.start && counted.end == slot.end);
    }
    let part = Part { held: 1, of: 3 };
    let models = spec.prices.iter().map(|priced| priced.model.as_str());
    for model in models.chain([""]) {
        let holding = Holding {
            model: model.into(),
            memory: part,
            core: part,
        };
        let part = rate(&[holding], &policy.prices, policy.formula).expect("a price fits");
        let whole = policy.prices.of(model);
        assert!(part <= whole, "a part that costs more than the whole");
    }
    let written = serde_json::to_vec(&spec).expect("a spec can be written");
    let again: GpuBudgetSpec = serde_json::from_slice(&written).expect("what we wrote");
    assert_eq!(Policy::try_from(&again), Ok(policy));
    Verdict::Accepted
}
