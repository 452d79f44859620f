//! Filter: which nodes have one card with room for the pod, and for the others why not.

use gpushare_kube::convert::PodFacts;

use super::answer::{Answer, Refusal};
use super::state::State;
use super::wire::Candidates;

pub(super) fn filter<'a>(
    state: &State,
    pod: &PodFacts,
    candidates: &'a Candidates<'a>,
) -> Answer<'a> {
    if let Err(missing) = state.ready() {
        return not_ready(candidates, missing);
    }
    let ask = match &pod.ask {
        Ok(Some(ask)) => ask,
        Ok(None) => return Answer::offering_all(candidates),
        Err(violations) => {
            return Answer::refusing_all(candidates, violations, Refusal::InvalidRequest);
        }
    };
    let search = state.ledger().search(ask);
    let answer = Answer::of(candidates, |name| {
        state.ledger().fit(name, &pod.uid, &search).err()
    });
    // That a pod is bound or being bound is no matter of the nodes. As an error the scheduler tries it
    // again soon; as a refusal by every node it would wait for some event in the cluster.
    let held = state.ledger().booking(pod.uid.as_str()).is_some();
    if held && candidates.len() > 0 && answer.refused() == candidates.len() {
        answer.into_error()
    } else {
        answer
    }
}

/// No answer can be given now; the scheduler asks again soon.
pub(super) fn not_ready<'a>(candidates: &'a Candidates<'a>, reason: &str) -> Answer<'a> {
    Answer::error(candidates, &reason, Refusal::NotReady)
}
