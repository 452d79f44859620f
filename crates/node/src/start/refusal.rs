//! Why a container does not start, in words for the person who reads the container's state.

use std::error::Error;

use gpushare_core::PodUid;
use gpushare_core::names;
use gpushare_core::record::RecordError;
use gpushare_core::validate::Violations;
use gpushare_kube::convert::PodFacts;
use thiserror::Error;

use crate::cdi::directory::DirectoryError;
use crate::cgroup::CgroupError;
use crate::guard::GuardRefusal;
use crate::identity::Doubt;
use crate::identity::checkpoint::CheckpointError;
use crate::identity::podresources::ListError;
use crate::state::full_name;

#[derive(Debug, Error)]
pub enum Refusal {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    List(#[from] ListError),
    #[error(transparent)]
    Doubt(#[from] Doubt),
    #[error(
        "the node agent has not received the list of pods from the API server yet; if this lasts, see the agent's log"
    )]
    NotListed,
    #[error(
        "the API server shows no pod with uid {0} on this node; static pods cannot use shared cards, \
         any other pod is tried again by itself"
    )]
    UnknownPod(PodUid),
    #[error("{0}")]
    Invalid(Violations),
    #[error("the pod has ended")]
    Ended,
    #[error(
        "the pod has no {} annotation, so no card was chosen for it; let the gpushare scheduler place the pod: \
         leave spec.nodeName empty, and check that the scheduler has the gpushare extender",
        names::ALLOCATION
    )]
    NoRecord,
    #[error("{0}; delete the pod so that it is placed again")]
    Record(RecordError),
    #[error("the agent cannot read this node's cards; see its log")]
    NoCards,
    #[error(transparent)]
    Cgroups(#[from] CgroupError),
    #[error(
        "the agent sees no process in the pod's control group, so it could not tell when the containers have ended: \
         mount the host's /sys/fs/cgroup read-only into the agent, name the mount with --cgroup-root, and leave the \
         kubelet's cgroupsPerQOS on"
    )]
    NoProcess,
    #[error(transparent)]
    Guard(#[from] GuardRefusal),
    #[error(
        "container {0:?} has no card in the pod's allocation record; delete the pod so that it is placed again"
    )]
    NoShare(String),
    #[error(transparent)]
    Files(#[from] DirectoryError),
    #[error("the node agent did not get all answers in time; it is tried again by itself")]
    TooSlow,
    #[error("the node agent is stopping; it is tried again by itself")]
    Stopping,
    #[error("pod {pod}: {refusal}")]
    OfPod { pod: String, refusal: Box<Refusal> },
}

impl Refusal {
    #[must_use]
    pub fn of_pod(self, pod: &PodFacts) -> Self {
        Self::OfPod {
            pod: full_name(pod),
            refusal: Box::new(self),
        }
    }

    /// The kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Checkpoint(_) => "checkpoint",
            Self::List(_) => "pod-resources",
            Self::Doubt(_) => "identity",
            Self::NotListed | Self::UnknownPod(_) => "unknown-pod",
            Self::Invalid(_) => "invalid-request",
            Self::Ended => "ended",
            Self::NoRecord | Self::Record(_) | Self::NoShare(_) => "record",
            Self::NoCards => "no-cards",
            Self::Cgroups(_) | Self::NoProcess => "cgroups",
            Self::Guard(GuardRefusal::StillHeld { .. }) => "still-held",
            Self::Guard(_) => "guard",
            Self::Files(_) => "files",
            Self::TooSlow | Self::Stopping => "time",
            Self::OfPod { refusal, .. } => refusal.kind(),
        }
    }

    /// The full message on one line, including causes.
    pub fn message(&self) -> String {
        let mut message = format!("gpushare: {self}");
        let mut cause = match self {
            Self::OfPod { refusal, .. } => refusal.source(),
            other => other.source(),
        };
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        message
    }
}
