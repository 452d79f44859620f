//! Churn: pods also leave, as in a cluster. Lifetimes are exponential and independent of the pod.
//!
//! One pod arrives at each tick. The mean lifetime is chosen so that, were nothing refused, the pods
//! present would ask for `load` times the cluster. After four mean lifetimes the start is forgotten to
//! 2 %; the next four are measured.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gpushare_core::pack::Policy;

use crate::progress::Progress;
use crate::random::{MEAN, Random};
use crate::report::{Average, Fragments, Report, Steady};
use crate::stage::{Placed, Stage, StageError};
use crate::trace::{Pod, Trace};

/// Mean lifetimes before measuring.
const WARM_UP: i64 = 4;
/// Mean lifetimes measured.
const MEASURED: i64 = 4;

/// An offered load, in thousandths of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load(pub i64);

impl std::str::FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse =
            || format!("{text:?} is not a load: use a number from 0.01 to 10, such as 0.9");
        let load: f64 = text.parse().map_err(|_| refuse())?;
        if !(0.01..=10.0).contains(&load) {
            return Err(refuse());
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 10,000")]
        Ok(Self((load * 1_000.0).round() as i64))
    }
}

/// Pods that arrive over and over in this order.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    pub pods: &'a [Pod],
    pub order: &'a [usize],
}

impl<'a> Demand<'a> {
    pub fn of(trace: &'a Trace) -> Self {
        Self {
            pods: &trace.pods,
            order: &trace.arrivals.pods,
        }
    }

    /// The mean lifetime in ticks for a load of a cluster of `capacity`.
    fn mean_lifetime(&self, load: Load, capacity: i64) -> i64 {
        let asked: i64 = self
            .order
            .iter()
            .filter_map(|row| self.pods.get(*row))
            .map(Pod::gpu)
            .sum();
        let arrivals = i64::try_from(self.order.len()).unwrap_or(0);
        let wanted = i128::from(load.0) * i128::from(capacity) * i128::from(arrivals);
        i64::try_from(wanted / 1_000 / i128::from(asked.max(1)))
            .unwrap_or(1)
            .max(1)
    }

    /// Ticks that a phase takes.
    pub fn ticks(&self, load: Load, capacity: i64) -> i64 {
        (WARM_UP + MEASURED) * self.mean_lifetime(load, capacity)
    }
}

struct Present<'a> {
    pod: &'a Pod,
    placed: Placed,
}

/// Runs one phase for each demand, one after the other in the same cluster.
pub fn run(
    trace: &Trace,
    demands: &[Demand<'_>],
    policy: Policy,
    load: Load,
    progress: &Progress,
) -> Result<Report, StageError> {
    let mut stage = Stage::new(trace, policy)?;
    let mut random = Random::new(trace.arrivals.seed ^ 0x6368_7572_6e21);
    let capacity = trace.capacity();
    let mut present: Vec<Option<Present<'_>>> = Vec::new();
    let mut leaving: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let (mut now, mut allocated, mut dropped) = (0_i64, 0_i64, 0_u64);
    let mut steady = Vec::new();
    for demand in demands {
        let lifetime = demand.mean_lifetime(load, capacity);
        let (mut used, mut offered, mut accepted) = (Average::default(), 0_i64, 0_i64);
        let order = demand.order.iter().filter_map(|row| demand.pods.get(*row));
        let ticks = usize::try_from(demand.ticks(load, capacity)).unwrap_or(0);
        for (tick, pod) in order.cycle().take(ticks).enumerate() {
            while let Some(Reverse((_, id))) = leaving.peek().copied().filter(|due| due.0.0 <= now)
            {
                leaving.pop();
                if let Some(gone) = present.get_mut(id).and_then(Option::take) {
                    allocated -= gone.pod.gpu();
                    stage.leave(gone.pod, gone.placed)?;
                }
            }
            let measured = i64::try_from(tick).unwrap_or(0) >= WARM_UP * lifetime;
            let stays = duration(lifetime, random.exponential());
            let placed = stage.arrive(pod)?;
            if placed.is_some() {
                allocated += pod.gpu();
                leaving.push(Reverse((now + stays, present.len())));
            } else {
                dropped += 1;
            }
            if measured {
                used.add(allocated, capacity);
                offered += pod.gpu();
                accepted += placed.map_or(0, |_| pod.gpu());
            }
            present.push(placed.map(|placed| Present { pod, placed }));
            now += 1;
            progress.step();
        }
        let mut share = Average::default();
        share.add(accepted, offered.max(1));
        steady.push(Steady {
            load: Average::of(load.0, 1_000),
            allocated: used.percent().unwrap_or(0.0),
            accepted: share.percent().unwrap_or(0.0),
        });
    }
    stage.compare()?;
    Ok(Report {
        policy: policy.name.into(),
        seed: trace.arrivals.seed,
        nodes: trace.nodes.len(),
        capacity_milli: capacity,
        pods: stage.decisions,
        dropped,
        at100: None,
        at130: None,
        curve: Vec::new(),
        steady,
        decisions_per_second: stage.decisions_per_second(),
        fragments: Fragments::of(&stage.fleet, trace),
    })
}

/// At least one tick, and a little more than `drawn` means by rounding up.
fn duration(mean: i64, drawn: u64) -> i64 {
    let ticks = i128::from(mean) * i128::from(drawn) / i128::from(MEAN);
    i64::try_from(ticks).unwrap_or(i64::MAX / 4).max(1)
}
