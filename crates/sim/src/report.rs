//! Reports: what a run measured, for people and for programs.

use std::fmt;

use gpushare_packing::{Fleet, GRAINS, Policy};
use serde::Serialize;

use crate::stage::Stage;
use crate::trace::{Pod, Trace};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub policy: String,
    pub seed: u64,
    pub nodes: usize,
    /// Thousandths of a card in the cluster.
    pub capacity_milli: i64,
    pub pods: u64,
    pub dropped: u64,
    /// Percent of the cluster allocated, on average while the arrived demand rounded to 100 % of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at100: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at130: Option<f64>,
    /// Percent of the cluster that had been requested, and percent allocated on average at that point.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(i64, f64)>,
    /// With churn: one entry for each phase.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steady: Vec<SteadyState>,
    pub decisions_per_second: f64,
    pub fragments: Fragments,
}

impl Report {
    /// What every run reports, without what depends on the kind of run.
    pub(crate) fn new(trace: &Trace, policy: Policy, stage: &Stage, dropped: u64) -> Self {
        Self {
            policy: policy.name.into(),
            seed: trace.arrivals.seed,
            nodes: trace.nodes.len(),
            capacity_milli: trace.capacity(),
            pods: stage.decisions,
            dropped,
            at100: None,
            at130: None,
            curve: Vec::new(),
            steady: Vec::new(),
            decisions_per_second: stage.decisions_per_second(),
            fragments: Fragments::of(&stage.fleet, trace),
        }
    }
}

/// The steady state of one phase, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SteadyState {
    pub load: f64,
    /// Percent of the cluster allocated.
    pub allocated: f64,
    /// Percent of the demand accepted.
    pub accepted: f64,
}

/// What was free in the end, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fragments {
    /// Percent of the cluster that is free.
    pub free: f64,
    /// The part of it on unused cards, on nodes that could still serve a pod of the trace.
    pub untouched: f64,
    /// The part of it on cards in use, on such nodes.
    pub shared: f64,
    /// The part of it on nodes without CPU or memory for any pod of the trace with cards.
    pub stranded: f64,
    pub untouched_cards: usize,
    pub shared_cards: usize,
}

impl Fragments {
    pub fn of(fleet: &Fleet, trace: &Trace) -> Self {
        let with_cards = || trace.pods.iter().filter(|pod| pod.cards > 0);
        let serves = |cpu: i64, memory: i64| {
            with_cards().any(|pod: &Pod| pod.cpu <= cpu && pod.memory <= memory)
        };
        let (mut untouched, mut shared, mut stranded) = (0, 0, 0);
        let mut result = Self::default();
        for space in (0..fleet.len()).filter_map(|node| fleet.space(node)) {
            let serves = serves(space.cpu, space.memory);
            for card in space.cards() {
                let place = match (serves, card.is_untouched()) {
                    (false, _) => &mut stranded,
                    (true, true) => &mut untouched,
                    (true, false) => &mut shared,
                };
                *place += card.room();
                result.untouched_cards += usize::from(card.is_untouched());
                result.shared_cards += usize::from(!card.is_untouched() && card.room() > 0);
            }
        }
        let capacity = trace.capacity() / crate::trace::CARD * GRAINS;
        let percent = |grains: i64| Average::of(grains, capacity.max(1));
        Self {
            free: percent(untouched + shared + stranded),
            untouched: percent(untouched),
            shared: percent(shared),
            stranded: percent(stranded),
            ..result
        }
    }
}

/// An average of percentages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Average {
    sum: f64,
    count: f64,
}

impl Average {
    pub fn add(&mut self, part: i64, whole: i64) {
        self.sum += Self::of(part, whole);
        self.count += 1.0;
    }

    #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
    pub fn of(part: i64, whole: i64) -> f64 {
        100.0 * part as f64 / whole.max(1) as f64
    }

    /// The average of both samples.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            count: self.count + other.count,
        }
    }

    pub fn percent(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl Stage {
    pub fn decisions_per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let decisions = self.decisions as f64;
        decisions / self.deciding.as_secs_f64().max(1e-9)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {} nodes, {} cards, seed {}",
            self.policy,
            self.nodes,
            self.capacity_milli / crate::trace::CARD,
            self.seed
        )?;
        if let Some(at100) = self.at100 {
            writeln!(
                f,
                "  at100      {at100:6.2} %   allocated when as much had arrived as the cluster has"
            )?;
        }
        if let Some(at130) = self.at130 {
            writeln!(
                f,
                "  at130      {at130:6.2} %   allocated when 1.3 times as much had arrived"
            )?;
        }
        for steady in &self.steady {
            writeln!(
                f,
                "  allocated  {:6.2} %   steady state at a load of {:.0} %; {:.2} % of the demand accepted",
                steady.allocated, steady.load, steady.accepted
            )?;
        }
        let Fragments {
            free,
            untouched,
            shared,
            stranded,
            untouched_cards,
            shared_cards,
        } = self.fragments;
        writeln!(f, "  free       {free:6.2} %   in the end:")?;
        writeln!(
            f,
            "    untouched{untouched:6.2} %   {untouched_cards} cards that nobody uses (all nodes)"
        )?;
        writeln!(
            f,
            "    shared   {shared:6.2} %   left over on {shared_cards} shared cards (all nodes)"
        )?;
        writeln!(
            f,
            "    stranded {stranded:6.2} %   on nodes without CPU or memory for any pod with cards"
        )?;
        writeln!(
            f,
            "  pods       {:6}     {} fitted nowhere; every decision passed the audit",
            self.pods, self.dropped
        )?;
        write!(
            f,
            "  speed      {:6.0}     decisions per second",
            self.decisions_per_second
        )
    }
}
