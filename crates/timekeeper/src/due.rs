//! What is due for one pod now. Pure: the result follows from the pod, the terms and how far it is charged.

use std::sync::Arc;

use gpushare_core::card::Card;
use gpushare_core::{Classes, PodUid};
use gpushare_ledger::Seconds;
use gpushare_ledger::meter::{self, Booking, MeterError, Plan, Tier, Times};
use gpushare_ledger::money::Rate;
use gpushare_ledger::price::{Formula, Prices};
use gpushare_ledger::store::{Change, Settlement};

use super::kubelets::Outlook;
use super::payers::{Link, Pays};
use super::view::SeenPod;

/// The formula that is recorded with charges for cards that are no longer known.
const UNKNOWN_CARDS: &str = "unknown-cards/1";

/// How far a pod is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) through: Seconds,
    pub(super) settled: bool,
}

/// Everything beside the pod on which the result depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) classes: &'a Classes,
    /// Of the pod's node.
    pub(super) cards: &'a [Card],
    /// Of the pod's node.
    pub(super) kubelet: Outlook,
    pub(super) pays: Pays<'a>,
    pub(super) progress: Option<Progress>,
    /// When it was noticed that the pod's object is gone.
    pub(super) vanished: Option<Seconds>,
    pub(super) now: Seconds,
    pub(super) grid: Seconds,
}

#[derive(Debug)]
pub(super) enum Due {
    /// Nothing is held, and nothing will be.
    Nothing,
    /// Nothing is held yet, or what is held cannot be charged yet.
    Later(Option<MeterError>),
    Charge(Box<DueCharges>),
}

#[derive(Debug)]
pub(super) struct DueCharges {
    pub(super) booking: Booking,
    /// The budget that pays now, then its ancestors, which count the charge too.
    pub(super) budgets: Vec<String>,
    pub(super) plan: Plan,
}

impl DueCharges {
    /// The changes to write, in order.
    pub(super) fn changes(&self) -> Vec<Change> {
        let Booking {
            pod,
            namespace,
            name,
            ..
        } = &self.booking;
        let settle = self.plan.settle.map(|end| {
            Change::Settle(Settlement {
                pod: pod.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
                end,
            })
        });
        let charges = self.plan.charges.iter().cloned().map(Change::Charge);
        charges.chain(settle).collect()
    }

    /// How far the pod is charged once the changes are written.
    pub(super) fn progress(&self) -> Option<Progress> {
        let settled = self.plan.settle.map(|end| Progress {
            through: end,
            settled: true,
        });
        let charged = self.plan.charges.last().map(|last| Progress {
            through: last.to,
            settled: false,
        });
        settled.or(charged)
    }

    /// What accrues with each second from now on.
    pub(super) fn rate(&self) -> Rate {
        match self.plan.settle {
            Some(_) => Rate::ZERO,
            None => self.booking.rate,
        }
    }

    pub(super) fn pod(&self) -> &PodUid {
        &self.booking.pod
    }
}

pub(super) fn due(seen: &SeenPod, about: Circumstances<'_>) -> Due {
    let payer = match about.pays {
        // A pod that is gone cannot wait until its namespace is listed.
        Pays::Unknown if about.vanished.is_none() => return Due::Later(None),
        Pays::Unknown | Pays::Nobody => None,
        Pays::Budget(payer) => Some(payer),
    };
    let links = payer.map_or(&[][..], |payer| payer.chain.as_slice());
    let no_prices = Prices::default();
    let policy = payer.and_then(|payer| payer.policy.as_ref());
    let terms = meter::Terms {
        prices: policy.map_or(&no_prices, |policy| &policy.prices),
        formula: policy.map_or(Formula::Max, |policy| policy.formula),
    };
    let times = times(seen, &about);
    let booked = meter::booking(&seen.facts, &times, about.classes, about.cards, terms);
    let booking = match booked {
        Ok(Some(booking)) => booking,
        Ok(None) => {
            return if over(seen, &times) {
                Due::Nothing
            } else {
                Due::Later(None)
            };
        }
        // A pod whose record cannot be trusted holds nothing, because the agent starts no container with such a record.
        Err(error @ MeterError::Record { .. }) => {
            return if over(seen, &times) {
                Due::Nothing
            } else {
                Due::Later(Some(error))
            };
        }
        // As long as the pod runs, its node may still show its cards.
        Err(MeterError::UnknownCard { .. }) if over(seen, &times) => unpriced(seen, &times),
        Err(error) => return Due::Later(Some(error)),
    };
    match about.progress {
        Some(Progress {
            through,
            settled: true,
        }) if booking.end.is_none_or(|end| end >= through) => Due::Nothing,
        progress => {
            let through = progress.map(|progress| progress.through);
            match plan(&booking, links, through, about.now, about.grid) {
                Ok((plan, budgets)) => Due::Charge(Box::new(DueCharges {
                    booking,
                    budgets,
                    plan,
                })),
                Err(error) => Due::Later(Some(error)),
            }
        }
    }
}

/// The times of the pod that count now. A pod whose object is gone has ended, whatever its last status said.
fn times(seen: &SeenPod, about: &Circumstances<'_>) -> Times {
    let through = about.progress.map(|progress| progress.through);
    let times = Times {
        vanished: about.vanished,
        ..meter::times(&seen.pod)
    };
    let times = times.with_rejection(through, about.now);
    let Outlook::Lost(reported_until) = about.kubelet else {
        return times.of_living_node();
    };
    // A pod held its card until its node was lost, even if it had been deleted before. What is already charged stays.
    let held_until = reported_until.max(through);
    Times {
        released: times.released.max(times.released.and(held_until)),
        ..times
    }
}

/// Whether the pod holds nothing any more, and never will again.
fn over(seen: &SeenPod, times: &Times) -> bool {
    let unbound = seen.facts.node.is_none() && seen.facts.deleting;
    unbound || meter::end(times).is_some()
}

/// For a pod whose node was gone before its cards were seen: its time without a price.
fn unpriced(seen: &SeenPod, times: &Times) -> Booking {
    Booking {
        pod: seen.facts.uid.clone(),
        namespace: seen.facts.namespace.clone(),
        name: seen.facts.name.clone(),
        begin: times.bound,
        end: meter::end(times),
        rate: Rate::ZERO,
        formula: UNKNOWN_CARDS.to_owned(),
        cards: Arc::default(),
    }
}

/// Like [`meter::plan`], but each budget of the chain pays only from its creation on. Also returns who pays at the end.
fn plan(
    booking: &Booking,
    links: &[Link],
    through: Option<Seconds>,
    now: Seconds,
    grid: Seconds,
) -> Result<(Plan, Vec<String>), MeterError> {
    let mut charges = Vec::new();
    let mut from = through.unwrap_or(booking.begin);
    let until = booking.end.unwrap_or(now).min(now);
    loop {
        let paying = links.iter().take_while(|link| link.created <= from);
        let tiers: Vec<Tier> = paying.map(|link| link.tier.clone()).collect();
        let later = links.iter().map(|link| link.created);
        let next = later.filter(|at| *at > from && *at < until).min();
        let stretch = Booking {
            end: next.or(booking.end),
            ..booking.clone()
        };
        let plan = meter::plan(&stretch, &tiers, Some(from), now, grid)?;
        charges.extend(plan.charges);
        let Some(cut) = next else {
            let budgets = tiers.into_iter().map(|tier| tier.budget).collect();
            return Ok((Plan { charges, ..plan }, budgets));
        };
        from = cut;
    }
}

#[cfg(test)]
mod tests;
