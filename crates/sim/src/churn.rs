//! Churn: pods also leave, as in a real cluster. Lifetimes are exponential and independent of the pod.
//!
//! One pod arrives at each tick. The mean lifetime is chosen so that, if no pod were refused, the pods
//! present would ask for `load` times the cluster. After four mean lifetimes, only 2 % of the start
//! remains; the next four are measured, or in a small cluster as many as give a steady average. After a
//! change of demand, the warm-up is long enough for the earlier pods to leave.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gpushare_packing::Policy;

use crate::progress::Progress;
use crate::random::{MEAN, Random};
use crate::report::{Average, Report, SteadyState};
use crate::stage::{Stage, StageError, StagedPod};
use crate::trace::{Pod, Trace};

/// Mean lifetimes before measuring.
const WARM_UP: i64 = 4;
/// The least number of mean lifetimes measured.
const MEASURED: i64 = 4;
/// The least number of arrivals measured.
const MEASURED_ARRIVALS: i64 = 5_000;

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

/// Pods that arrive repeatedly in this order.
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
}

/// One demand, and how long it lasts.
#[derive(Clone, Copy, Debug)]
struct Phase<'a> {
    demand: Demand<'a>,
    lifetime: i64,
    warm_up: i64,
    ticks: i64,
}

fn plan<'a>(demands: &[Demand<'a>], load: Load, capacity: i64) -> Vec<Phase<'a>> {
    let mut longest = 0;
    demands
        .iter()
        .map(|demand| {
            let lifetime = demand.mean_lifetime(load, capacity);
            longest = lifetime.max(longest);
            let warm_up = WARM_UP * longest;
            Phase {
                demand: *demand,
                lifetime,
                warm_up,
                ticks: warm_up + (MEASURED * lifetime).max(MEASURED_ARRIVALS),
            }
        })
        .collect()
}

/// How many pods arrive in [`run`].
pub fn arrivals(demands: &[Demand<'_>], load: Load, capacity: i64) -> usize {
    let phases = plan(demands, load, capacity);
    let ticks = phases.iter().map(|phase| phase.ticks).sum::<i64>();
    usize::try_from(ticks).unwrap_or(0)
}

/// A cluster in which pods come and go.
struct Town<'a> {
    stage: Stage,
    random: Random,
    now: i64,
    allocated: i64,
    dropped: u64,
    present: Vec<Option<(&'a Pod, StagedPod)>>,
    leaving: BinaryHeap<Reverse<(i64, usize)>>,
}

impl<'a> Town<'a> {
    /// One pod arrives, and stays for about `lifetime` ticks if there is room.
    fn arrive(&mut self, pod: &'a Pod, lifetime: i64) -> Result<bool, StageError> {
        self.let_leave()?;
        let stays = duration(lifetime, self.random.exponential());
        let placed = self.stage.arrive(pod)?;
        if placed.is_some() {
            self.allocated += pod.gpu();
            self.leaving
                .push(Reverse((self.now + stays, self.present.len())));
        } else {
            self.dropped += 1;
        }
        self.present.push(placed.map(|placed| (pod, placed)));
        self.now += 1;
        Ok(placed.is_some())
    }

    fn let_leave(&mut self) -> Result<(), StageError> {
        while let Some(Reverse((due, id))) = self.leaving.peek().copied()
            && due <= self.now
        {
            self.leaving.pop();
            if let Some((pod, placed)) = self.present.get_mut(id).and_then(Option::take) {
                self.allocated -= pod.gpu();
                self.stage.leave(pod, placed)?;
            }
        }
        Ok(())
    }

    fn live_through(
        &mut self,
        phase: &Phase<'a>,
        capacity: i64,
        progress: &Progress,
    ) -> Result<(Average, Average), StageError> {
        let (mut used, mut offered, mut accepted) = (Average::default(), 0_i64, 0_i64);
        let Demand { pods, order } = phase.demand;
        let order = order.iter().filter_map(|row| pods.get(*row)).cycle();
        for (tick, pod) in (0..phase.ticks).zip(order) {
            let placed = self.arrive(pod, phase.lifetime)?;
            if tick >= phase.warm_up {
                used.add(self.allocated, capacity);
                offered += pod.gpu();
                accepted += if placed { pod.gpu() } else { 0 };
            }
            progress.step();
        }
        let mut share = Average::default();
        share.add(accepted, offered);
        Ok((used, share))
    }
}

/// Runs one phase for each demand, one after the other in the same cluster.
pub fn run(
    trace: &Trace,
    demands: &[Demand<'_>],
    policy: Policy,
    load: Load,
    progress: &Progress,
) -> Result<Report, StageError> {
    let capacity = trace.capacity();
    let mut town = Town {
        stage: Stage::new(trace, policy)?,
        random: Random::new(trace.arrivals.seed ^ 0x6368_7572_6e21),
        now: 0,
        allocated: 0,
        dropped: 0,
        present: Vec::new(),
        leaving: BinaryHeap::new(),
    };
    let mut steady = Vec::new();
    for phase in plan(demands, load, capacity) {
        let (used, accepted) = town.live_through(&phase, capacity, progress)?;
        steady.push(SteadyState {
            load: Average::of(load.0, 1_000),
            allocated: used.percent().unwrap_or(0.0),
            accepted: accepted.percent().unwrap_or(0.0),
        });
    }
    let Town { stage, dropped, .. } = town;
    stage.compare()?;
    Ok(Report {
        steady,
        ..Report::new(trace, policy, &stage, dropped)
    })
}

/// At least one tick.
fn duration(mean: i64, drawn: u64) -> i64 {
    let ticks = i128::from(mean) * i128::from(drawn) / i128::from(MEAN);
    i64::try_from(ticks).unwrap_or(i64::MAX / 4).max(1)
}
