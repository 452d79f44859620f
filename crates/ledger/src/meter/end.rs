//! When a pod's containers ended, derived from its object.

use crate::Seconds;

/// The times on a pod from which its end is derived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it was bound: the transition of its condition `PodScheduled`, else its start, else its creation. For a
    /// pod that has ended, the earlier of the first two.
    pub bound: Seconds,
    /// Its phase is Succeeded or Failed.
    pub ended: bool,
    /// For every container of any kind that ever started: when it finished for good, or `None` if that is not known.
    pub finished: Vec<Option<Seconds>>,
    /// When its conditions last changed. The loss of its node is recorded there too.
    pub conditions: Vec<Seconds>,
    /// The time of its deletion, if no grace is left: only a finalizer still keeps the object.
    pub released: Option<Seconds>,
    /// The kubelet rejected the pod with a status that says nothing about its containers or when it was bound.
    pub rejected: bool,
    /// When the status was last written. Anybody who may edit the pod can change or remove this.
    pub written: Option<Seconds>,
    /// When it was noticed that the object is gone although its end was not charged.
    pub vanished: Option<Seconds>,
}

impl Times {
    /// While the node's kubelet reports, the containers have ended only when the kubelet says so. A deletion without
    /// grace does not end them: anybody who may delete the pod can request one while the containers run.
    #[must_use]
    pub fn of_living_node(self) -> Self {
        Self {
            released: None,
            ..self
        }
    }

    /// A kubelet that restarts admits its pods again. It may reject one that has run for hours, for example because
    /// the node agent is down. The pod held its cards until then. What is charged stays, because the status does not
    /// contradict it.
    #[must_use]
    pub fn with_rejection(mut self, charged: Option<Seconds>, now: Seconds) -> Self {
        if self.rejected {
            let noticed = self.written.map_or(now, |written| written.min(now));
            self.conditions.push(noticed);
            self.conditions.extend(charged);
        }
        self
    }
}

/// When the pod stopped holding anything; `None` while it still holds something.
///
/// If all finish times are known, the last one counts. After the loss of a node some never arrive. Then the last
/// change that is recorded on the pod counts, but nothing later than its deletion.
pub fn end(times: &Times) -> Option<Seconds> {
    if !times.ended && times.released.is_none() && times.vanished.is_none() {
        return None;
    }
    let finished: Option<Vec<Seconds>> = times.finished.iter().copied().collect();
    let last_finish = finished.and_then(|finished| finished.into_iter().max());
    let gone = times.released.into_iter().chain(times.vanished).min();
    let end = match (last_finish, times.ended) {
        (Some(finish), _) => finish,
        (None, true) => {
            let known = times.finished.iter().flatten().chain(&times.conditions);
            let noted = known.copied().max().unwrap_or(times.bound);
            gone.map_or(noted, |gone| gone.min(noted))
        }
        (None, false) => gone?,
    };
    Some(end.max(times.bound))
}
