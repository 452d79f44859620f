//! The allocation record: what was decided for a pod, as written into its annotation with the bind.
//!
//! It is the only durable form of a booking, so it must be impossible to confuse with another pod's: it
//! names the pod's uid, which nobody knows before the pod exists, and its node. A record that does not
//! agree with its pod in every respect is worth nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::amounts::DeviceClass;
use crate::ids::{CardId, NodeName, PodUid};
use crate::placement::{ContainerPlacement, Placement, Share};
use crate::request::PodAsk;

const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    pub pod: PodUid,
    pub node: NodeName,
    class: String,
    containers: Vec<ContainerRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ContainerRecord {
    name: String,
    cards: Vec<ShareRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ShareRecord {
    id: CardId,
    amounts: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    #[error("the allocation record cannot be read: {0}")]
    Malformed(String),
    #[error("the allocation record has version {0}, this gpushare understands {VERSION}")]
    Version(u32),
    #[error("the allocation record belongs to another pod (uid {0})")]
    OtherPod(PodUid),
    #[error("the allocation record is for node {record}, the pod is on {pod}")]
    OtherNode { record: NodeName, pod: NodeName },
    #[error("the allocation record is for {0} devices")]
    OtherClass(String),
    #[error("the allocation record does not match what container {0:?} asks for")]
    OtherRequest(String),
}

impl Record {
    pub fn new(pod: PodUid, node: NodeName, class: &DeviceClass, placement: &Placement) -> Self {
        let containers = placement
            .containers
            .iter()
            .map(|placed| ContainerRecord {
                name: placed.container.clone(),
                cards: placed
                    .shares
                    .iter()
                    .map(|share| ShareRecord {
                        id: share.card.clone(),
                        amounts: class.named(&share.amounts),
                    })
                    .collect(),
            })
            .collect();
        Self {
            version: VERSION,
            pod,
            node,
            class: class.name.to_string(),
            containers,
        }
    }

    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| unreachable!("all keys are strings"))
    }

    pub fn decode(text: &str) -> Result<Self, RecordError> {
        let record: Self = serde_json::from_str(text)
            .map_err(|error| RecordError::Malformed(error.to_string()))?;
        if record.version == VERSION {
            Ok(record)
        } else {
            Err(RecordError::Version(record.version))
        }
    }

    /// The placement, if the record agrees with the pod in everything: uid, node, class, containers,
    /// number of cards and amounts.
    pub fn verify(
        &self,
        pod: &PodUid,
        node: &NodeName,
        class: &DeviceClass,
        ask: &PodAsk,
    ) -> Result<Placement, RecordError> {
        if self.pod != *pod {
            return Err(RecordError::OtherPod(self.pod.clone()));
        }
        if self.node != *node {
            return Err(RecordError::OtherNode {
                record: self.node.clone(),
                pod: node.clone(),
            });
        }
        if self.class != *class.name {
            return Err(RecordError::OtherClass(self.class.clone()));
        }
        if let Some(extra) = self
            .containers
            .iter()
            .find(|c| ask.container(&c.name).is_none())
        {
            return Err(RecordError::OtherRequest(extra.name.clone()));
        }
        let containers = ask
            .containers
            .iter()
            .map(|ask| {
                let mut records = self.containers.iter().filter(|c| c.name == ask.container);
                match (records.next(), records.next()) {
                    (Some(record), None) => record.shares(class).filter(
                        |shares| matches!(shares.as_slice(), [one] if one.amounts == ask.amounts),
                    ),
                    _ => None,
                }
                .map(|shares| ContainerPlacement {
                    container: ask.container.clone(),
                    shares,
                })
                .ok_or_else(|| RecordError::OtherRequest(ask.container.clone()))
            })
            .collect::<Result<_, _>>()?;
        Ok(Placement { containers })
    }
}

impl ContainerRecord {
    fn shares(&self, class: &DeviceClass) -> Option<Vec<Share>> {
        self.cards
            .iter()
            .map(|share| {
                let amounts = class.amounts(&share.amounts).ok()?;
                Some(Share {
                    card: share.id.clone(),
                    amounts,
                })
            })
            .collect()
    }
}
