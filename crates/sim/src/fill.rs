//! Filling a cluster: pods arrive and never leave, as in the published benchmark.

use std::collections::BTreeMap;

use gpushare_packing::Policy;

use crate::progress::Progress;
use crate::report::{Average, Report};
use crate::stage::{Stage, StageError};
use crate::trace::Trace;

pub fn run(trace: &Trace, policy: Policy, progress: &Progress) -> Result<Report, StageError> {
    let mut stage = Stage::new(trace, policy)?;
    let capacity = trace.capacity();
    let (mut arrived, mut allocated, mut dropped) = (0_i64, 0_i64, 0_u64);
    let mut curve: BTreeMap<i64, Average> = BTreeMap::new();
    for pod in trace
        .arrivals
        .pods
        .iter()
        .filter_map(|row| trace.pods.get(*row))
    {
        arrived += pod.gpu();
        match stage.arrive(pod)? {
            Some(_) => allocated += pod.gpu(),
            None => dropped += 1,
        }
        curve
            .entry(rounded_percent(arrived, capacity))
            .or_default()
            .add(allocated, capacity);
        progress.step();
    }
    stage.compare()?;
    Ok(Report {
        at100: at(&curve, 100),
        at130: at(&curve, 130),
        curve: curve
            .into_iter()
            .filter_map(|(arrived, allocated)| Some((arrived, allocated.percent()?)))
            .collect(),
        ..Report::new(trace, policy, &stage, dropped)
    })
}

/// The average at a percentage, or around it if one pod skipped it.
fn at(curve: &BTreeMap<i64, Average>, percent: i64) -> Option<f64> {
    let around = || {
        let near = curve.range(percent - 1..=percent + 1);
        near.fold(Average::default(), |sum, (_, average)| sum.with(*average))
    };
    let exact = curve.get(&percent).copied();
    exact.unwrap_or_else(around).percent()
}

fn rounded_percent(part: i64, whole: i64) -> i64 {
    if whole <= 0 {
        return 0;
    }
    (part * 200 + whole) / (2 * whole)
}
