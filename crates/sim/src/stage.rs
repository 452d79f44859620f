//! The stage: a trace's cluster as the core sees it, with the audit beside it.

use std::time::{Duration, Instant};

use gpushare_core::amounts::Amounts;
use gpushare_core::ids::NodeName;
use gpushare_packing::policy::Measure;
use gpushare_packing::{CardRoom, Fleet, Pick, Policy, PoolSet, Shape, Space, Want};
use thiserror::Error;

use crate::audit::{Audit, Violation};
use crate::trace::{CARD, Pod, Trace};
use crate::typical;

#[derive(Debug, Error)]
pub enum StageError {
    #[error("the cluster of the trace is beyond what gpushare handles: {0}")]
    Cluster(String),
    #[error("the audit refuses a decision: {0}; this is a bug in gpushare, please report it")]
    Audit(#[from] Violation),
}

/// A cluster under simulation.
#[derive(Debug)]
pub struct Stage {
    pub fleet: Fleet,
    audit: Audit,
    /// The row of each node, by its place in the order of ties.
    rows: Vec<usize>,
    pub decisions: u64,
    pub deciding: Duration,
}

/// A pod on the stage.
#[derive(Clone, Copy, Debug)]
pub struct StagedPod {
    pick: Pick,
    id: u64,
}

impl Stage {
    pub fn new(trace: &Trace, policy: Policy) -> Result<Self, StageError> {
        let mut fleet = Fleet::new(policy);
        let size = amounts(CARD);
        for (place, row) in trace.arrivals.nodes.iter().enumerate() {
            let Some(node) = trace.nodes.get(*row) else {
                continue;
            };
            let pool = fleet
                .pools_mut()
                .intern(&node.model, size)
                .map_err(|error| StageError::Cluster(error.to_string()))?;
            let cards = vec![CardRoom::new(pool, size, size); node.cards];
            let space = Space::new(node.cpu, node.memory, cards)
                .map_err(|error| StageError::Cluster(error.to_string()))?;
            fleet.set(&NodeName::new(format!("{place:08}")), space);
        }
        if policy.uses(Measure::Fragmentation) {
            // As published, the typical pods are known in advance.
            let typical: Vec<(Shape, i64)> = typical::pods(&trace.pods)
                .into_iter()
                .map(|(pod, times)| (shape(&fleet, pod), times))
                .collect();
            let all = i64::try_from(trace.pods.len()).unwrap_or(i64::MAX);
            fleet.know_typical(&typical, all);
        }
        Ok(Self {
            fleet,
            audit: Audit::new(&trace.nodes),
            rows: trace.arrivals.nodes.clone(),
            decisions: 0,
            deciding: Duration::ZERO,
        })
    }

    /// Places one pod; `None` if it fits nowhere.
    pub fn arrive(&mut self, pod: &Pod) -> Result<Option<StagedPod>, StageError> {
        let shape = shape(&self.fleet, pod);
        let id = self.decisions;
        let start = Instant::now();
        self.fleet.observe(&shape);
        let pick = self.fleet.choose(&shape);
        let booked = pick.is_none_or(|pick| self.fleet.take(pick, &shape));
        self.deciding += start.elapsed();
        self.decisions += 1;
        match pick {
            Some(pick) if booked => {
                let cards: Vec<usize> = pick.cards.iter().collect();
                let row = self.rows.get(pick.node).copied().unwrap_or(usize::MAX);
                self.audit.place(id, pod, row, &cards)?;
                Ok(Some(StagedPod { pick, id }))
            }
            Some(_) => Err(Violation::Unbookable {
                pod: pod.name.clone(),
            }
            .into()),
            None => {
                self.audit.drop(pod)?;
                Ok(None)
            }
        }
    }

    pub fn leave(&mut self, pod: &Pod, placed: StagedPod) -> Result<(), StageError> {
        let shape = shape(&self.fleet, pod);
        self.fleet.give(placed.pick, &shape);
        self.fleet.observe_end(&shape);
        let row = self
            .rows
            .get(placed.pick.node)
            .copied()
            .unwrap_or(usize::MAX);
        Ok(self.audit.leave(placed.id, row)?)
    }

    /// Compares what the fleet shows as free with what the audit counts.
    pub fn compare(&self) -> Result<(), StageError> {
        for (place, row) in self.rows.iter().enumerate() {
            let free: Vec<i64> = self.fleet.space(place).map_or_else(Vec::new, |space| {
                space
                    .cards()
                    .iter()
                    .map(|card| i64::try_from(card.free().get(0)).unwrap_or(-1))
                    .collect()
            });
            let (cpu, memory) = self
                .fleet
                .space(place)
                .map_or((-1, -1), |space| (space.cpu, space.memory));
            self.audit.compare(*row, cpu, memory, &free)?;
        }
        Ok(())
    }
}

/// The trace has one dimension; memory and core both get its amount.
fn amounts(milli: i64) -> Amounts {
    let milli = u64::try_from(milli).unwrap_or(0);
    Amounts::of(0, milli).with(1, milli)
}

fn shape(fleet: &Fleet, pod: &Pod) -> Shape {
    Shape {
        cpu: pod.cpu,
        memory: pod.memory,
        cards: pod.cards,
        want: if pod.milli < CARD && pod.cards > 0 {
            Want::share(amounts(pod.milli))
        } else {
            Want::Whole
        },
        pools: if pod.models.is_empty() {
            PoolSet::ANY
        } else {
            fleet
                .pools()
                .matching(|pool| pod.models.iter().any(|model| **model == *pool.model))
        },
    }
}
