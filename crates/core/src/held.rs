//! What containers still hold on a node although their pods are gone, as the node agent publishes it in the node's
//! annotation.
//!
//! A pod's object can be deleted while its containers run. The books follow the objects; the agent sees the processes
//! and reports what the objects do not show.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::amounts::{Classes, DeviceClass};
use crate::ids::{CardId, PodUid};
use crate::placement::{Charges, Hold};

const VERSION: u32 = 1;

/// A pod that has ended for the API server but whose containers still run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPod {
    pub pod: PodUid,
    /// `namespace/name`, for people.
    pub name: Box<str>,
    pub charges: Charges,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    pods: Vec<PodEntry>,
}

#[derive(Serialize, Deserialize)]
struct PodEntry {
    uid: PodUid,
    #[serde(default)]
    name: Box<str>,
    cards: Vec<CardEntry>,
}

#[derive(Serialize, Deserialize)]
struct CardEntry {
    id: CardId,
    class: String,
    /// Left out if the whole card is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    amounts: Option<BTreeMap<String, u64>>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HeldError {
    #[error("what is still held on the node cannot be read: {0}")]
    Malformed(String),
    #[error("what is still held on the node has version {0}, this gpushare understands {VERSION}")]
    Version(u32),
    #[error("pod {0} is named twice in what is still held on the node")]
    Twice(PodUid),
    #[error("card {card} has an unknown capacity {dimension:?} in what is still held on the node")]
    UnknownDimension { card: CardId, dimension: String },
}

/// All cards of the pods must be of this class.
pub fn encode(class: &DeviceClass, pods: &[HeldPod]) -> String {
    let card = |(id, hold): (&CardId, &Hold)| CardEntry {
        id: id.clone(),
        class: class.name.to_string(),
        amounts: match hold {
            Hold::Whole => None,
            Hold::Part(amounts) => Some(class.named(amounts)),
        },
    };
    let pods = pods.iter().map(|held| PodEntry {
        uid: held.pod.clone(),
        name: held.name.clone(),
        cards: held.charges.iter().map(card).collect(),
    });
    let document = Document {
        version: VERSION,
        pods: pods.collect(),
    };
    serde_json::to_string(&document).unwrap_or_else(|_| unreachable!("all keys are strings"))
}

/// Leaves out cards of classes that are not configured here, because we cannot judge them.
pub fn decode(classes: &Classes, text: &str) -> Result<Vec<HeldPod>, HeldError> {
    let document: Document =
        serde_json::from_str(text).map_err(|error| HeldError::Malformed(error.to_string()))?;
    if document.version != VERSION {
        return Err(HeldError::Version(document.version));
    }
    let mut seen = BTreeSet::new();
    let mut pods = Vec::new();
    for PodEntry { uid, name, cards } in document.pods {
        if !seen.insert(uid.clone()) {
            return Err(HeldError::Twice(uid));
        }
        let mut charges = Vec::new();
        for CardEntry { id, class, amounts } in cards {
            let Some(class) = classes.get(&class) else {
                continue;
            };
            let hold = match amounts {
                None => Hold::Whole,
                Some(named) => Hold::Part(class.amounts(&named).map_err(|dimension| {
                    HeldError::UnknownDimension {
                        card: id.clone(),
                        dimension,
                    }
                })?),
            };
            charges.push((id, hold));
        }
        pods.push(HeldPod {
            pod: uid,
            name,
            charges: charges.into_iter().collect(),
        });
    }
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amounts::Amounts;
    use crate::gpu;

    fn held(pod: &str, card: &str, hold: Hold) -> HeldPod {
        HeldPod {
            pod: pod.into(),
            name: "team/train".into(),
            charges: [(CardId::new(card), hold)].into_iter().collect(),
        }
    }

    #[test]
    fn what_is_held_reads_back_as_it_was_written() {
        let part = Hold::Part(Amounts::of(gpu::MEMORY, 6144).with(gpu::CORE, 10));
        let pods = [
            held("u-1", "GPU-0", part),
            held("u-2", "GPU-1", Hold::Whole),
        ];
        let text = encode(&gpu::class(), &pods);
        assert_eq!(decode(&gpu::classes(), &text).unwrap(), pods);
    }

    #[test]
    fn what_cannot_be_understood_is_an_error_and_never_nothing() {
        let pod = r#"{"uid":"u","cards":[{"id":"GPU-0","class":"gpu","amounts":{"length":1}}]}"#;
        for (text, expected) in [
            ("", "cannot be read"),
            (r#"{"version":2,"pods":[]}"#, "has version 2"),
            (
                &format!(r#"{{"version":1,"pods":[{pod}]}}"#),
                "unknown capacity \"length\"",
            ),
            (
                r#"{"version":1,"pods":[{"uid":"u","cards":[]},{"uid":"u","cards":[]}]}"#,
                "named twice",
            ),
        ] {
            let error = decode(&gpu::classes(), text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
