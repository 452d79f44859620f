//! A workload that changes its mix halfway: old demand must be forgotten.

use gpushare_packing::policy::{BEST_FIT, FGD, FIRST_FIT, LEARNED, Policy};
use gpushare_sim::churn::{self, Demand, Load};
use gpushare_sim::progress::Progress;
use gpushare_sim::synth;
use gpushare_sim::trace::{Pod, Trace};

/// The trace with only some of its pods.
fn only(keep: impl Fn(&Pod) -> bool) -> Trace {
    let mut trace = synth::trace(48, 1_200, 11);
    trace.pods.retain(keep);
    trace.arrivals.pods = trace.shuffled(11).pods;
    trace
}

/// Percent of demand accepted in the last phase.
fn accepted(phases: &[&Trace], policy: Policy) -> f64 {
    let demands: Vec<Demand<'_>> = phases.iter().map(|trace| Demand::of(trace)).collect();
    let run = churn::run(phases[0], &demands, policy, Load(900), &Progress::hidden());
    run.unwrap().steady.last().unwrap().accepted
}

#[test]
fn the_policy_follows_a_mix_that_changes() {
    let small = only(|pod| pod.cards <= 1 && pod.milli < 1_000);
    let large = only(|pod| pod.cards >= 1 && pod.milli == 1_000);
    for (before, after) in [(&small, &large), (&large, &small)] {
        let changed = accepted(&[before, after], LEARNED);
        let known = accepted(&[after, after], LEARNED);
        assert!(changed > known - 3.0, "{changed} {known}");
        for policy in [FIRST_FIT, BEST_FIT, FGD] {
            let other = accepted(&[before, after], policy);
            assert!(changed > other - 1.0, "{changed} {} {other}", policy.name);
        }
    }
}
