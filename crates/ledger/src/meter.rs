//! What must be charged for a pod, from what the API server records of it.
//!
//! A pod pays for what is booked for it, from its bind until its containers have ended, because no other pod can use
//! it in that time. So names, order and restarts of containers, slow images and init containers change nothing. No
//! outage can hide anything either: the bind's time, the allocation record and the finish times stay on the pod, and
//! the finalizer [`gpushare_core::names::METERING`] keeps the pod until its end is charged.
//!
//! Time is cut on a fixed grid and where a slot of any of the budgets ends. The same facts always give the same
//! intervals, no matter which replica computes them and when.

mod end;
mod pod;

use std::sync::Arc;

use gpushare_core::record::RecordError;
use gpushare_core::{CardId, PodUid};
use thiserror::Error;

pub use self::end::{Times, end};
pub use self::pod::{Terms, booking, times};
use crate::Seconds;
use crate::journal::Leg;
use crate::money::{Amount, MoneyError, Rate};
use crate::period::{PeriodError, Schedule};
use crate::price::Holding;

/// A pod and what is booked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    pub pod: PodUid,
    pub namespace: String,
    pub name: String,
    /// When it was bound.
    pub begin: Seconds,
    /// When its containers had ended, once that is known.
    pub end: Option<Seconds>,
    pub rate: Rate,
    /// How the rate was computed, for the record.
    pub formula: String,
    /// The cards that the rate is for. Empty if they are no longer known.
    pub cards: Arc<[HeldCard]>,
}

/// A card that is held, so that the payer can see what it pays for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldCard {
    pub id: CardId,
    pub holding: Holding,
}

/// A budget in the chain that a booking is charged to, from the one that pays up to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    pub budget: String,
    pub schedule: Schedule,
}

/// A piece of time that is charged as one. Pod and interval are its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    pub pod: PodUid,
    pub namespace: String,
    pub name: String,
    pub from: Seconds,
    pub to: Seconds,
    pub rate: Rate,
    pub formula: String,
    /// The pod's cards, so they are the same in all its charges.
    pub cards: Arc<[HeldCard]>,
    /// The budget that pays, then those that count the charge too. Empty for namespaces without a budget.
    pub legs: Vec<Leg>,
}

impl Charge {
    pub fn amount(&self) -> Result<Amount, MoneyError> {
        self.rate.during(self.to - self.from)
    }
}

/// What is to be done for a booking now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In order, without gaps.
    pub charges: Vec<Charge>,
    /// The pod's end; no charge may reach past it. Once the ledger has recorded it, the finalizer may be removed.
    pub settle: Option<Seconds>,
    /// Accrued and not charged yet.
    pub held: Amount,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MeterError {
    #[error(transparent)]
    Money(#[from] MoneyError),
    #[error(transparent)]
    Period(#[from] PeriodError),
    #[error("the allocation record of pod {pod} is not valid: {source}")]
    Record { pod: PodUid, source: RecordError },
    #[error(
        "pod {pod} holds card {card}, which its node does not show, so its model and size are not known"
    )]
    UnknownCard { pod: PodUid, card: CardId },
}

/// What is still to be charged. `through` is the time up to which the ledger has already charged this pod.
pub fn plan(
    booking: &Booking,
    chain: &[Tier],
    through: Option<Seconds>,
    now: Seconds,
    grid: Seconds,
) -> Result<Plan, MeterError> {
    // Continue from what is already charged, whatever the pod says now: the ledger refuses a charge that does not join.
    let begin = through.unwrap_or(booking.begin);
    let ended = booking.end.map(|end| end.max(booking.begin));
    // An end in the future comes from a clock that is ahead of ours. It counts once our clock has reached it.
    let ended = ended.filter(|end| *end <= now);
    let limit = ended.unwrap_or(now);
    let mut charges = Vec::new();
    let mut from = begin;
    while from < limit {
        let (legs, cut) = legs(chain, from, grid)?;
        let to = cut.min(ended.unwrap_or(cut));
        if to > limit {
            break;
        }
        charges.push(Charge {
            pod: booking.pod.clone(),
            namespace: booking.namespace.clone(),
            name: booking.name.clone(),
            from,
            to,
            rate: booking.rate,
            formula: booking.formula.clone(),
            cards: booking.cards.clone(),
            legs,
        });
        from = to;
    }
    Ok(Plan {
        held: booking.rate.during((limit - from).max(0))?,
        charges,
        settle: ended,
    })
}

/// The legs at a moment, and the next cut: where the grid's cell or one of their slots ends.
fn legs(chain: &[Tier], at: Seconds, grid: Seconds) -> Result<(Vec<Leg>, Seconds), PeriodError> {
    let grid = grid.max(1);
    let mut cut = at - at.rem_euclid(grid) + grid;
    let mut legs = Vec::with_capacity(chain.len());
    for tier in chain {
        let slot = tier.schedule.slot(at)?;
        cut = cut.min(slot.end);
        legs.push(Leg::new(&tier.budget, slot.start));
    }
    Ok((legs, cut))
}

#[cfg(test)]
mod tests;
