//! Turns a pod of the API server into a booking.

use gpushare_core::card::Card;
use gpushare_core::{Classes, PodUid};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::metering::{Container, ContainerTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::end::{Times, end};
use super::{Booking, HeldCard, MeterError};
use crate::Seconds;
use crate::price::{Formula, Holding, Prices, rate};

/// What determines the price of a booking.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub prices: &'a Prices,
    pub formula: Formula,
}

/// The times that are recorded on a pod.
pub fn times(pod: &Pod) -> Times {
    let status = &pod.status;
    let conditions = || status.conditions.iter();
    let scheduled = conditions()
        .find(|condition| condition.kind == "PodScheduled" && condition.status == "True");
    let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let transition = scheduled.and_then(|condition| condition.last_transition_time.as_ref());
    let start = status.start_time.as_ref();
    let bound = if ended {
        // A kubelet that rejects a pod removes the condition, or dates it to the rejection.
        transition
            .into_iter()
            .chain(start)
            .min_by_key(|time| time.0)
    } else {
        transition.or(start)
    };
    let bound = bound.or(pod.metadata.creation_timestamp.as_ref());
    let containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses);
    let no_grace = pod.metadata.deletion_grace_period_seconds == Some(0);
    let deleted = pod.metadata.deletion_timestamp.as_ref();
    let finished: Vec<_> = containers
        .filter(|container| started(container))
        .map(finished)
        .collect();
    Times {
        bound: bound.map_or(0, seconds),
        ended,
        rejected: ended && finished.is_empty() && scheduled.is_none(),
        written: pod.status_written().map(seconds),
        finished,
        conditions: conditions()
            .filter_map(|condition| condition.last_transition_time.as_ref().map(seconds))
            .collect(),
        released: deleted.filter(|_| no_grace).map(seconds),
        vanished: None,
    }
}

fn started(container: &Container) -> bool {
    container.state.running.is_some() || terminated(container).is_some()
}

/// A container that waits for its next start has ended for now.
fn terminated(container: &Container) -> Option<&ContainerTerminated> {
    let (now, before) = (
        &container.state.terminated,
        &container.last_state.terminated,
    );
    now.as_ref().or(before.as_ref())
}

/// When a container finished; `None` if it has not finished or the time is not known.
fn finished(container: &Container) -> Option<Seconds> {
    if container.state.running.is_some() {
        return None;
    }
    let at = terminated(container)?.finished_at.as_ref()?;
    // A kubelet that lost track of a container writes a zero time.
    Some(seconds(at)).filter(|seconds| *seconds > 0)
}

/// What is booked for a pod, and until when according to its times. `None` for pods that hold nothing.
pub fn booking(
    facts: &PodFacts,
    times: &Times,
    classes: &Classes,
    cards: &[Card],
    terms: Terms<'_>,
) -> Result<Option<Booking>, MeterError> {
    let uid = &facts.uid;
    let Some(bound) = facts.bound(classes) else {
        return Ok(None);
    };
    let bound = bound.map_err(|source| MeterError::Record {
        pod: uid.clone(),
        source,
    })?;
    let (mut holdings, mut held) = (Vec::new(), Vec::new());
    for (id, hold) in bound.placement.charges(&bound.ask) {
        let card = cards.iter().find(|card| card.id == id);
        let card = card.ok_or_else(|| MeterError::UnknownCard {
            pod: uid.clone(),
            card: id.clone(),
        })?;
        if let Some(holding) = Holding::new(card, &hold) {
            holdings.push(holding.clone());
            held.push(HeldCard { id, holding });
        }
    }
    Ok(Some(Booking {
        pod: PodUid::new(uid.as_str()),
        namespace: facts.namespace.clone(),
        name: facts.name.clone(),
        begin: times.bound,
        end: end(times),
        rate: rate(&holdings, terms.prices, terms.formula)?,
        formula: terms.formula.to_string(),
        cards: held.into(),
    }))
}

fn seconds(time: &Time) -> Seconds {
    time.0.as_second()
}

#[cfg(test)]
mod tests;
