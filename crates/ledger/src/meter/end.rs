//! When a pod's containers had ended, from what stands on its object.

use crate::Seconds;

/// The times on a pod that tell its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it was bound: the transition of its condition `PodScheduled`, or its start where that is not told.
    pub bound: Seconds,
    /// Its phase is Succeeded or Failed.
    pub ended: bool,
    /// For every container of any kind that was ever started, when it finished for good, or nothing if its status does not tell.
    pub finished: Vec<Option<Seconds>>,
    /// When its conditions last changed; the node's loss is told there too.
    pub conditions: Vec<Seconds>,
    /// The object would be gone if no finalizer held it: the time of its deletion, with no grace left.
    pub released: Option<Seconds>,
    /// The kubelet has rejected the pod with a status that tells neither of its containers nor when it was bound.
    pub rejected: bool,
    /// When somebody wrote the status last. Whoever may edit the pod can change or remove this.
    pub written: Option<Seconds>,
    /// The object is gone although its end was not charged, and this is when that was noticed.
    pub vanished: Option<Seconds>,
}

impl Times {
    /// As long as the node's kubelet reports, the containers have ended when it says so, and not when somebody has
    /// deleted the object without grace: anybody who may delete the pod can do that while the containers run.
    #[must_use]
    pub fn of_living_node(self) -> Self {
        Self {
            released: None,
            ..self
        }
    }

    /// A kubelet that restarts admits its pods again and may reject one that has run for hours, for example because the node
    /// agent is away. The pod held its cards until then. What is charged stays, because the status does not tell otherwise.
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

/// When nothing was held any more; nothing while something is.
///
/// Finish times count where all are there. Where a node was lost some never come: then the last thing that was noted
/// about the pod tells, at the latest its deletion.
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
