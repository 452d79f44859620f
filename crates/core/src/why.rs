//! Why a node cannot take a pod. A refusal is an answer, not an error: it says what is missing where.

use std::fmt;
use std::sync::Arc;

use crate::ids::{CardId, NodeName};

/// How much one card lacks for a request, in one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardShort {
    pub index: u32,
    pub card: CardId,
    pub dimension: Arc<str>,
    pub unit: Arc<str>,
    pub needed: u64,
    pub free: u64,
    pub size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// We do not know the node, or its agent has not published cards.
    NoCards { class: Arc<str> },
    /// Every card of the node lacks something, or is sick.
    NoRoom {
        needed: String,
        short: Vec<CardShort>,
        sick: Vec<u32>,
    },
    /// A bind of this pod is under way.
    BindInProgress { node: NodeName },
    /// The outcome of an earlier bind is not known yet; until then only that node may take the pod.
    HeldElsewhere { node: NodeName },
    /// The pod is bound already.
    AlreadyBound { node: NodeName },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCards { class } => {
                write!(
                    f,
                    "no {class} cards published (is the gpushare node agent running there?)"
                )
            }
            Self::NoRoom {
                needed,
                short,
                sick,
            } => no_room(f, needed, short, sick),
            Self::BindInProgress { node } => write!(f, "the pod is being bound to {node}"),
            Self::HeldElsewhere { node } => {
                write!(
                    f,
                    "an earlier bind to {node} is not settled yet, only {node} can take the pod"
                )
            }
            Self::AlreadyBound { node } => write!(f, "the pod is bound to {node} already"),
        }
    }
}

fn no_room(
    f: &mut fmt::Formatter<'_>,
    needed: &str,
    short: &[CardShort],
    sick: &[u32],
) -> fmt::Result {
    write!(f, "no card has {needed} free")?;
    let mut separator = ": ";
    for CardShort {
        index,
        unit,
        needed,
        free,
        size,
        ..
    } in short
    {
        let lacks = needed.saturating_sub(*free);
        write!(
            f,
            "{separator}card {index} lacks {lacks} {unit} ({free} of {size} free)"
        )?;
        separator = ", ";
    }
    for index in sick {
        write!(f, "{separator}card {index} is unhealthy")?;
        separator = ", ";
    }
    Ok(())
}
