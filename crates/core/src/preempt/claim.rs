//! The claim as recorded on the preemptor: which room is kept for it and which pods are evicted for it.
//!
//! It lets a restarted or newly leading extender continue where the last one stopped. Like an
//! allocation record, it is accepted only if it agrees with its pod in everything; the API server
//! prevents others from writing one (`deploy/admission.yaml`).

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::amounts::Classes;
use crate::ids::{NodeName, PodUid};
use crate::placement::Placement;
use crate::record::{Record, RecordError};
use crate::request::PodAsk;

const VERSION: u32 = 1;

/// Who carries out the evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evictor {
    Gpushare,
    Scheduler,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    version: u32,
    /// When it was made, in milliseconds since 1970. The time distinguishes two claims of one pod.
    pub since: i64,
    pub evictor: Evictor,
    pub victims: Vec<PodUid>,
    room: Record,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClaimError {
    #[error("the preemption record cannot be read: {0}")]
    Malformed(String),
    #[error("the preemption record has version {0}, this gpushare understands {VERSION}")]
    Version(u32),
    #[error("the preemption record is not valid: {0}")]
    Record(#[from] RecordError),
}

impl ClaimRecord {
    pub fn new(room: Record, victims: Vec<PodUid>, evictor: Evictor, since: i64) -> Self {
        Self {
            version: VERSION,
            since,
            evictor,
            victims,
            room,
        }
    }

    pub fn node(&self) -> &NodeName {
        &self.room.node
    }

    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| unreachable!("all keys are strings"))
    }

    pub fn decode(text: &str) -> Result<Self, ClaimError> {
        let claim: Self =
            serde_json::from_str(text).map_err(|error| ClaimError::Malformed(error.to_string()))?;
        if claim.version == VERSION {
            Ok(claim)
        } else {
            Err(ClaimError::Version(claim.version))
        }
    }

    /// The claimed placement, if the claim agrees with its pod.
    pub fn verify(
        &self,
        pod: &PodUid,
        classes: &Classes,
        ask: &PodAsk,
    ) -> Result<Placement, ClaimError> {
        let room = &self.room;
        Ok(room.verify(pod, &room.node, classes, ask)?)
    }
}
