//! Why a node cannot take a pod. A refusal is an answer, not an error: it says exactly what stands in
//! the way.

use std::fmt;
use std::sync::Arc;

use crate::amounts::Dimension;
use crate::ids::NodeName;

/// What stands in the way, apart from the sizes of the cards: without these obstacles the pod would fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Obstacles {
    /// Other pods hold what is needed.
    pub room: bool,
    /// The cards that would suffice are unhealthy.
    pub health: bool,
    /// The pod does not accept the cards that would suffice.
    pub choice: bool,
}

/// What is missing on the cards that could be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// The node has fewer cards than one container asks for.
    Cards {
        wanted: u32,
        there: u32,
    },
    /// Too few cards are unused.
    Whole {
        wanted: u32,
        untouched: u32,
    },
    Amount(TooLittle),
    /// Everything is available, but not together on one card, or not for all containers at once.
    Together {
        wanted: u32,
    },
}

/// Too few cards have this much of a dimension.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TooLittle {
    pub wanted: u32,
    pub dimension: Arc<str>,
    pub unit: Arc<str>,
    pub needed: u64,
    /// The most that `wanted` cards each have.
    pub most: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The node is unknown, or no cards of the class are published for it.
    NoCards { class: Arc<str> },
    /// The cards are too small even if nothing else stood in the way.
    TooSmall { class: Arc<str>, short: Shortage },
    /// The fewest obstacles without which the pod would fit.
    Blocked {
        class: Arc<str>,
        by: Obstacles,
        short: Shortage,
        /// Containers whose pod is gone hold a part of the missing room.
        outlived: bool,
    },
    /// This many steps did not suffice to find out whether the containers fit together, or why not.
    TooComplex {
        class: Arc<str>,
        containers: u32,
        steps: u32,
    },
    /// The nodes checked earlier have used up all steps of the request.
    NotReached {
        class: Arc<str>,
        containers: u32,
        steps: u32,
    },
    /// A bind of this pod is under way.
    BindInProgress { node: NodeName },
    /// The outcome of an earlier bind is not known yet.
    BindInDoubt { node: NodeName },
    /// The pod is bound already.
    AlreadyBound { node: NodeName },
}

impl Shortage {
    pub(crate) fn amount(wanted: u32, dimension: &Dimension, needed: u64, most: u64) -> Self {
        Self::Amount(TooLittle {
            wanted,
            dimension: dimension.name.clone(),
            unit: dimension.unit.clone(),
            needed,
            most,
        })
    }
}

impl TooLittle {
    /// A number of the dimension's units, such as `8 GiB of memory`.
    pub(crate) fn units(&self, number: u64) -> String {
        format!("{number} {} of {}", self.unit, self.dimension)
    }

    pub(crate) fn missing(&self) -> u64 {
        self.needed.saturating_sub(self.most)
    }
}

impl Why {
    /// The reason without its numbers, by which nodes are grouped.
    #[must_use]
    pub fn kind(&self) -> Self {
        match self.as_said() {
            Self::TooSmall { class, short } => Self::TooSmall {
                class,
                short: short.kind(),
            },
            Self::Blocked {
                class,
                by,
                short,
                outlived,
            } => Self::Blocked {
                class,
                by,
                short: short.kind(),
                outlived,
            },
            other => other,
        }
    }

    /// Without details that the message does not show: if room is not the obstacle, the amount of room does not matter.
    #[must_use]
    pub fn as_said(&self) -> Self {
        match self {
            Self::Blocked { class, by, .. } if !by.room => Self::Blocked {
                class: class.clone(),
                by: *by,
                short: Shortage::Together { wanted: 0 },
                outlived: false,
            },
            other => other.clone(),
        }
    }

    /// How far the node is from taking the pod; comparable only among reasons of one kind.
    pub fn lack(&self) -> u64 {
        match self {
            Self::TooSmall { short, .. } => short.lack(),
            Self::Blocked { by, short, .. } if by.room => short.lack(),
            _ => 0,
        }
    }

    /// Whether the search had to stop before this node, so that the next request continues here.
    pub fn is_unfinished(&self) -> bool {
        matches!(self, Self::NotReached { .. })
    }

    pub fn class(&self) -> Option<&Arc<str>> {
        match self {
            Self::NoCards { class }
            | Self::TooSmall { class, .. }
            | Self::Blocked { class, .. }
            | Self::TooComplex { class, .. }
            | Self::NotReached { class, .. } => Some(class),
            _ => None,
        }
    }

    /// The text for several nodes, of which this one lacks least.
    pub fn of_several(&self) -> String {
        struct Several<'a>(&'a Why);

        impl fmt::Display for Several<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, Numbers::Best)
            }
        }

        Several(self).to_string()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, numbers: Numbers) -> fmt::Result {
        match self {
            Self::NoCards { class } => {
                write!(
                    f,
                    "no {class} cards published (is the gpushare node agent running there?)"
                )
            }
            Self::TooSmall { short, .. } => short.write(f, Tense::Ever, numbers),
            Self::Blocked {
                by,
                short,
                outlived,
                ..
            } => {
                blocked(f, *by, short, numbers)?;
                if *outlived {
                    f.write_str(OUTLIVED)?;
                }
                Ok(())
            }
            Self::TooComplex {
                containers, steps, ..
            } => write!(
                f,
                "the search gave up after {steps} steps for {containers} containers that share cards: \
                 use fewer containers, or ask for whole cards"
            ),
            Self::NotReached {
                containers, steps, ..
            } => write!(
                f,
                "not searched: other nodes used up all {steps} steps for {containers} containers that share cards: \
                 use fewer containers, or ask for whole cards"
            ),
            Self::BindInProgress { node } => write!(f, "the pod is being bound to {node}"),
            Self::BindInDoubt { node } => {
                write!(f, "an earlier bind to {node} is not settled yet")
            }
            Self::AlreadyBound { node } => write!(f, "the pod is bound to {node} already"),
        }
    }
}

/// Added if containers without a pod hold a part of the room.
const OUTLIVED: &str =
    "; a part is held by containers of a pod that no longer exists, until they have ended";

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Numbers::Exact)
    }
}

fn blocked(
    f: &mut fmt::Formatter<'_>,
    by: Obstacles,
    short: &Shortage,
    numbers: Numbers,
) -> fmt::Result {
    let Obstacles {
        room,
        health,
        choice,
    } = by;
    let mut separator = "";
    if choice {
        f.write_str("the pod's selectors exclude the cards that have room")?;
        separator = "; ";
    }
    if health {
        write!(f, "{separator}the cards that have room are unhealthy")?;
        separator = "; ";
    }
    if room {
        f.write_str(separator)?;
        short.write(f, Tense::Now, numbers)?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tense {
    Now,
    Ever,
}

/// Whether the numbers are exact for one node, or the best of several nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Exact,
    Best,
}

impl Shortage {
    fn kind(&self) -> Self {
        match self {
            Self::Cards { wanted, .. } => Self::Cards {
                wanted: *wanted,
                there: 0,
            },
            Self::Whole { wanted, .. } => Self::Whole {
                wanted: *wanted,
                untouched: 0,
            },
            Self::Amount(short) => Self::Amount(TooLittle {
                needed: 0,
                most: 0,
                ..short.clone()
            }),
            Self::Together { wanted } => Self::Together { wanted: *wanted },
        }
    }

    fn lack(&self) -> u64 {
        match self {
            Self::Cards { wanted, there } => u64::from(wanted.saturating_sub(*there)),
            Self::Whole { wanted, untouched } => u64::from(wanted.saturating_sub(*untouched)),
            Self::Amount(short) => short.missing(),
            Self::Together { .. } => 0,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, tense: Tense, numbers: Numbers) -> fmt::Result {
        let now = tense == Tense::Now;
        let up_to = if numbers == Numbers::Best {
            "up to "
        } else {
            ""
        };
        match self {
            Self::Cards { wanted, there } => {
                let s = plural(*wanted);
                write!(f, "{wanted} card{s} needed, the node has {up_to}{there}")
            }
            Self::Whole { wanted, untouched } => {
                let s = plural(*wanted);
                write!(f, "{wanted} unused card{s} needed, {up_to}{untouched} free")
            }
            Self::Amount(short) => {
                let state = if now { "free" } else { "in all" };
                let (needed, most) = (short.units(short.needed), short.most);
                match short.wanted {
                    0 | 1 => write!(f, "no card has {needed} {state}, the most is {most}"),
                    wanted => write!(
                        f,
                        "fewer than {wanted} cards have {needed} {state}, {wanted} have at most {most}"
                    ),
                }
            }
            Self::Together { wanted: 0 | 1 } => {
                let state = if now { " free" } else { "" };
                write!(f, "no card has everything needed{state}")
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
