//! The allocation record: the decision for a pod, as written into its annotation with the bind.
//!
//! It is the only durable form of a booking, so it must be impossible to confuse with another pod's: it names the pod's
//! uid, which nobody knows before the pod exists, and its node. A record that does not agree with its pod in every
//! respect is not accepted.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::amounts::{Classes, DeviceClass};
use crate::ids::{CardId, NodeName, PodUid};
use crate::placement::{Charges, ContainerPlacement, Hold, Placement, Share};
use crate::request::{ContainerAsk, PodAsk, Want};

const VERSION: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    pub pod: PodUid,
    pub node: NodeName,
    containers: Vec<ContainerRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ContainerRecord {
    name: Box<str>,
    class: String,
    cards: Vec<ShareRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ShareRecord {
    id: CardId,
    /// Left out if the whole card is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    amounts: Option<BTreeMap<String, u64>>,
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
    #[error("the allocation record does not match what container {0:?} asks for")]
    OtherRequest(Box<str>),
}

impl Record {
    pub fn new(pod: PodUid, node: NodeName, classes: &Classes, placement: &Placement) -> Self {
        let containers = placement
            .containers
            .iter()
            .map(|placed| ContainerRecord {
                name: placed.container.clone(),
                class: placed.class.to_string(),
                cards: placed
                    .shares
                    .iter()
                    .map(|share| ShareRecord::new(share, classes.get(&placed.class)))
                    .collect(),
            })
            .collect();
        Self {
            version: VERSION,
            pod,
            node,
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

    /// The placement, if the record agrees with the pod in everything: uid, node, containers, classes, number of cards
    /// and amounts. Entries of classes that are not configured here are left out, because we cannot judge them: a node
    /// agent is configured only for its own class.
    pub fn verify(
        &self,
        pod: &PodUid,
        node: &NodeName,
        classes: &Classes,
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
        let extra = |record: &&ContainerRecord| {
            classes.get(&record.class).is_some()
                && ask.container(&record.class, &record.name).is_none()
        };
        if let Some(extra) = self.containers.iter().find(extra) {
            return Err(RecordError::OtherRequest(extra.name.clone()));
        }
        let containers = ask
            .containers
            .iter()
            .map(|ask| {
                let other = || RecordError::OtherRequest(ask.container.clone());
                let class = classes.get(&ask.class).ok_or_else(other)?;
                let same = |c: &&ContainerRecord| c.name == ask.container && *c.class == *ask.class;
                let mut records = self.containers.iter().filter(same);
                match (records.next(), records.next()) {
                    (Some(record), None) => record.shares(class, ask),
                    _ => None,
                }
                .map(|shares| ContainerPlacement {
                    container: ask.container.clone(),
                    class: ask.class.clone(),
                    shares,
                })
                .ok_or_else(other)
            })
            .collect::<Result<_, _>>()?;
        Ok(Placement { containers })
    }
}

impl Record {
    /// The most that the record can hold on cards of one class: the sum of all its containers. Use it for a pod that is
    /// gone: it is then unknown which of its containers ran one after the other.
    pub fn most(&self, classes: &Classes, class: &str) -> Charges {
        let mut charges: BTreeMap<CardId, Hold> = BTreeMap::new();
        let Some(known) = classes.get(class) else {
            return Charges::default();
        };
        let containers = self
            .containers
            .iter()
            .filter(|record| record.class == class);
        for share in containers.flat_map(|record| &record.cards) {
            let amounts = share.amounts.as_ref();
            // Amounts that cannot be read may mean the whole card.
            let hold = amounts.and_then(|named| known.amounts(named).ok());
            let sum = match (charges.get(&share.id), hold) {
                (None, Some(amounts)) => Hold::Part(amounts),
                (Some(Hold::Part(before)), Some(amounts)) => {
                    Hold::Part(before.saturating_add(&amounts))
                }
                _ => Hold::Whole,
            };
            charges.insert(share.id.clone(), sum);
        }
        charges.into_iter().collect()
    }
}

impl ContainerRecord {
    /// The shares, if they are on as many different cards as requested, each with the requested amounts.
    fn shares(&self, class: &DeviceClass, ask: &ContainerAsk) -> Option<Vec<Share>> {
        let cards: BTreeSet<&CardId> = self.cards.iter().map(|share| &share.id).collect();
        let wanted = usize::try_from(ask.cards).ok()?;
        if cards.len() != wanted || self.cards.len() != wanted {
            return None;
        }
        self.cards
            .iter()
            .map(|share| {
                let hold = match (&share.amounts, &ask.want) {
                    (None, Want::Whole) => Hold::Whole,
                    (Some(named), Want::Share(part)) => {
                        let amounts = class.amounts(named).ok()?;
                        part.could_be(&amounts).then_some(Hold::Part(amounts))?
                    }
                    _ => return None,
                };
                Some(Share {
                    card: share.id.clone(),
                    hold,
                })
            })
            .collect()
    }
}

impl ShareRecord {
    fn new(share: &Share, class: Option<&DeviceClass>) -> Self {
        Self {
            id: share.card.clone(),
            amounts: match &share.hold {
                Hold::Whole => None,
                Hold::Part(amounts) => class.map(|class| class.named(amounts)),
            },
        }
    }
}
