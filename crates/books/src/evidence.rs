//! What a bound pod proves about its booking.

use gpushare_core::Ledger;
use gpushare_core::ledger::{BookingState, BoundPod};
use gpushare_kube::convert::PodFacts;

use crate::pods::Pods;

/// The booking that a bound pod proves. Once accepted, it stays: the containers hold that
/// card, whatever is written on the pod later.
pub(crate) fn proven(pods: &Pods, ledger: &Ledger, facts: &PodFacts) -> Option<BoundPod> {
    let node = facts.node.as_ref()?;
    let ask = facts.ask.as_ref().ok()?.as_ref()?;
    let held = ledger.booking(facts.uid.as_str()).filter(|booking| {
        let believed = matches!(
            booking.state,
            BookingState::Settled | BookingState::Confirmed
        );
        booking.node == *node && believed
    });
    let shown = facts.bound(ledger.classes());
    let Some(held) = held else {
        let reason = match shown {
            Some(Ok(bound)) => return Some(bound),
            Some(Err(error)) => error.to_string(),
            None => "it carries no allocation record".to_owned(),
        };
        report_unbooked(pods, facts, &reason);
        return None;
    };
    if !matches!(&shown, Some(Ok(shown)) if shown.placement == held.placement) {
        tracing::warn!(
            pod = %format_args!("{}/{}", facts.namespace, facts.name), uid = %facts.uid, %node,
            "the allocation record was changed after the bind; the first one stays booked"
        );
    }
    Some(BoundPod {
        pod: facts.uid.clone(),
        node: node.clone(),
        ask: ask.clone(),
        placement: held.placement.clone(),
    })
}

/// Logs once that a bound pod is not booked: it has no valid record, so the agent of its node does
/// not start it.
fn report_unbooked(pods: &Pods, facts: &PodFacts, reason: &str) {
    let known = pods.get(facts.uid.as_str());
    if known.is_none_or(|known| known.node.is_none()) {
        tracing::warn!(
            pod = %format_args!("{}/{}", facts.namespace, facts.name), uid = %facts.uid, reason,
            "a bound pod asks for a share of a card but is not booked"
        );
    }
}
