//! Why a node cannot take a pod. A refusal is an answer, not an error: it says what stands in the way,
//! and no more than that.

use std::fmt;
use std::sync::Arc;

use crate::amounts::Dimension;
use crate::ids::NodeName;

/// What stands in the way, besides the sizes of the cards: without these the pod would fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Obstacles {
    /// Other pods hold what is needed.
    pub room: bool,
    /// The cards that would do are unhealthy.
    pub health: bool,
    /// The pod does not accept the cards that would do.
    pub choice: bool,
}

/// What is missing on the cards that come into question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// The node has fewer cards than one container asks for.
    Cards { wanted: u32, there: u32 },
    /// Too few cards that nobody uses.
    Whole { wanted: u32, untouched: u32 },
    /// Too few cards have this much of a dimension.
    Amount {
        wanted: u32,
        dimension: Arc<str>,
        unit: Arc<str>,
        needed: u64,
        /// The most that as many cards as wanted have.
        most: u64,
    },
    /// Everything is there, but not together on one card, or not for all containers at once.
    Together { wanted: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// We do not know the node, or its agent has not published cards.
    NoCards { class: Arc<str> },
    /// Not even if nothing stood in the way.
    TooSmall { class: Arc<str>, short: Shortage },
    /// The fewest things that would have to change.
    Blocked {
        class: Arc<str>,
        by: Obstacles,
        short: Shortage,
    },
    /// A bind of this pod is under way.
    BindInProgress { node: NodeName },
    /// The outcome of an earlier bind is not known yet; until then only that node may take the pod.
    HeldElsewhere { node: NodeName },
    /// The pod is bound already.
    AlreadyBound { node: NodeName },
}

impl Shortage {
    pub(crate) fn amount(wanted: u32, dimension: &Dimension, needed: u64, most: u64) -> Self {
        Self::Amount {
            wanted,
            dimension: dimension.name.clone(),
            unit: dimension.unit.clone(),
            needed,
            most,
        }
    }
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
            Self::TooSmall { short, .. } => short.write(f, Tense::Ever),
            Self::Blocked { by, short, .. } => blocked(f, *by, short),
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

fn blocked(f: &mut fmt::Formatter<'_>, by: Obstacles, short: &Shortage) -> fmt::Result {
    let Obstacles {
        room,
        health,
        choice,
    } = by;
    let mut separator = "";
    if choice {
        f.write_str("the pod's selectors exclude the cards that would do")?;
        separator = "; ";
    }
    if health {
        write!(f, "{separator}the cards that would do are unhealthy")?;
        separator = "; ";
    }
    if room {
        f.write_str(separator)?;
        short.write(f, Tense::Now)?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tense {
    Now,
    Ever,
}

impl Shortage {
    fn write(&self, f: &mut fmt::Formatter<'_>, tense: Tense) -> fmt::Result {
        let now = tense == Tense::Now;
        match self {
            Self::Cards { wanted, there } => {
                let s = plural(*wanted);
                write!(f, "{wanted} card{s} needed, the node has {there}")
            }
            Self::Whole { wanted, untouched } => {
                let s = plural(*wanted);
                write!(f, "{wanted} unused card{s} needed, {untouched} free")
            }
            Self::Amount {
                wanted,
                dimension,
                unit,
                needed,
                most,
            } => {
                let state = if now { "free" } else { "in all" };
                match wanted {
                    0 | 1 => write!(f, "no card has {needed} {unit} of {dimension} {state}")?,
                    _ => write!(
                        f,
                        "fewer than {wanted} cards have {needed} {unit} of {dimension} {state}"
                    )?,
                }
                match wanted {
                    0 | 1 => write!(f, ", the most is {most}"),
                    _ => write!(f, ", {wanted} have at most {most}"),
                }
            }
            Self::Together { wanted: 0 | 1 } => {
                let state = if now { "free" } else { "" };
                write!(f, "no card has everything needed {state}").map(drop)
            }
            Self::Together { .. } => {
                f.write_str("the cards cannot hold what all containers need together")
            }
        }
    }
}

fn plural(number: u32) -> &'static str {
    if number == 1 { "" } else { "s" }
}
