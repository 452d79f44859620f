//! An explanation for programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::amounts::{Amounts, Classes};
use crate::dialect::Dialects;
use crate::ids::{CardId, NodeName};
use crate::request::PodAsk;
use crate::room::CardRoom;
use crate::search::Search;
use crate::why::{Obstacles, Shortage, Why};

use super::{Explanation, Group, Nodes, help};

/// For how many nodes of a group the cards are shown.
const MOST_DETAILED: usize = 3;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The explanation as text for people.
    pub message: String,
    /// How many nodes were looked at.
    pub nodes: usize,
    /// How many of them can take the pod, and the names of some.
    pub fitting: usize,
    pub fitting_nodes: Vec<NodeName>,
    pub groups: Vec<GroupReport>,
}

/// Nodes that do not take the pod for the same kind of reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupReport {
    pub reason: String,
    pub kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// All of these stand in the way; without them the pod would fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<Obstacle>,
    /// What is missing on the node that lacks least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lack: Option<Lack>,
    pub count: usize,
    /// Some of the nodes; those that lack least come first.
    pub nodes: Vec<NodeName>,
    /// Each of these changes would let the pod onto such a node, or bring it closer.
    pub help: Vec<String>,
    /// The cards of the first few nodes.
    pub cards: BTreeMap<NodeName, Vec<CardDetail>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    NoCards,
    /// The cards would not suffice even if all were empty, healthy and accepted.
    TooSmall,
    Blocked,
    /// The steps allowed for the node or the request were used up before the answer was found.
    Undecided,
    /// The pod is bound or being bound.
    Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Obstacle {
    Room,
    Health,
    Choice,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "of")]
pub enum Lack {
    Cards {
        wanted: u32,
        there: u32,
    },
    WholeCards {
        wanted: u32,
        unused: u32,
    },
    Amount {
        /// On how many cards of one node the amount is needed.
        wanted: u32,
        dimension: String,
        unit: String,
        needed: u64,
        most: u64,
    },
    /// Everything is there, but not on the same card, or not for all containers at once.
    Together {
        wanted: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardDetail {
    pub index: u32,
    pub id: CardId,
    pub class: String,
    pub model: String,
    pub size: BTreeMap<String, u64>,
    pub free: BTreeMap<String, u64>,
    pub healthy: bool,
    /// Whether the pod's selectors let it use the card.
    pub accepted: bool,
}

impl CardDetail {
    pub fn new(classes: &Classes, search: &Search<'_>, room: &CardRoom) -> Self {
        let card = &room.card;
        let size = classes
            .get(&card.class)
            .map(|class| class.named(&card.capacity));
        let size = size.unwrap_or_default();
        // A dimension that is used up is shown as 0, not left out.
        let mut free: BTreeMap<String, u64> = size.keys().map(|name| (name.clone(), 0)).collect();
        let named = |amounts: &Amounts| classes.get(&card.class).map(|class| class.named(amounts));
        free.extend(named(&room.free()).unwrap_or_default());
        Self {
            index: card.index,
            id: card.id.clone(),
            class: card.class.to_string(),
            model: card.model.to_string(),
            size,
            free,
            healthy: card.healthy,
            accepted: search.accepts(room),
        }
    }
}

impl Explanation {
    /// The report; `cards` returns the cards of a node.
    pub fn report(
        &self,
        ask: &PodAsk,
        dialects: &Dialects,
        cards: impl Fn(&NodeName) -> Vec<CardDetail>,
    ) -> Report {
        let Nodes { count, names } = &self.fitting;
        let group = |group: &Group| GroupReport::new(group, ask, dialects, &cards);
        Report {
            message: self.to_string(),
            nodes: self.nodes,
            fitting: *count,
            fitting_nodes: names.clone(),
            groups: self.groups.iter().map(group).collect(),
        }
    }
}

impl GroupReport {
    fn new(
        group: &Group,
        ask: &PodAsk,
        dialects: &Dialects,
        cards: impl Fn(&NodeName) -> Vec<CardDetail>,
    ) -> Self {
        let (kind, obstacles, lack) = match &group.why {
            Why::NoCards { .. } => (Kind::NoCards, Vec::new(), None),
            Why::TooSmall { short, .. } => (Kind::TooSmall, Vec::new(), Some(Lack::of(short))),
            Why::Blocked { by, short, .. } => {
                let lack = by.room.then(|| Lack::of(short));
                (Kind::Blocked, obstacles(*by), lack)
            }
            Why::TooComplex { .. } | Why::NotReached { .. } => (Kind::Undecided, Vec::new(), None),
            Why::BindInProgress { .. } | Why::BindInDoubt { .. } | Why::AlreadyBound { .. } => {
                (Kind::Held, Vec::new(), None)
            }
        };
        let Nodes { count, names } = &group.nodes;
        let detailed = names.iter().take(MOST_DETAILED);
        Self {
            reason: group.reason(),
            kind,
            class: group.why.class().map(ToString::to_string),
            obstacles,
            lack,
            count: *count,
            nodes: names.clone(),
            help: help::help(group, ask, dialects),
            cards: detailed.map(|name| (name.clone(), cards(name))).collect(),
        }
    }
}

fn obstacles(by: Obstacles) -> Vec<Obstacle> {
    let all = [
        (by.room, Obstacle::Room),
        (by.health, Obstacle::Health),
        (by.choice, Obstacle::Choice),
    ];
    let there = all.into_iter().filter(|(there, _)| *there);
    there.map(|(_, obstacle)| obstacle).collect()
}

impl Lack {
    fn of(short: &Shortage) -> Self {
        match short {
            Shortage::Cards { wanted, there } => Self::Cards {
                wanted: *wanted,
                there: *there,
            },
            Shortage::Whole { wanted, untouched } => Self::WholeCards {
                wanted: *wanted,
                unused: *untouched,
            },
            Shortage::Amount(short) => Self::Amount {
                wanted: short.wanted,
                dimension: short.dimension.to_string(),
                unit: short.unit.to_string(),
                needed: short.needed,
                most: short.most,
            },
            Shortage::Together { wanted } => Self::Together { wanted: *wanted },
        }
    }
}
