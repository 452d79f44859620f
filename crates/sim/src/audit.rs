//! The audit: an independent check of every decision.
//!
//! It stores only which pod is where and computes all sums again each time, in the trace's own numbers.
//! It shares no code with the packing it checks, so that a mistake there cannot hide here.

use thiserror::Error;

use crate::trace::{CARD, Node, Pod};

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Violation {
    #[error("pod {pod} was placed on node {node}, which {reason}")]
    Misplaced {
        pod: String,
        node: String,
        reason: String,
    },
    #[error("pod {pod} was dropped although node {node} has room for it")]
    Dropped { pod: String, node: String },
    #[error("pod {pod} was given a placement that could not be booked")]
    Unbookable { pod: String },
    #[error("a pod left node {node}, where it was not")]
    Absent { node: String },
    #[error("node {node} has {counted} free by count and {believed} by belief")]
    Disagreement {
        node: String,
        counted: String,
        believed: String,
    },
    #[error("node row {0} does not exist")]
    NoSuchNode(usize),
}

#[derive(Clone, Debug)]
struct Guest {
    id: u64,
    cpu: i64,
    memory: i64,
    milli: i64,
    cards: Vec<usize>,
}

#[derive(Clone, Debug)]
struct House {
    node: Node,
    guests: Vec<Guest>,
}

#[derive(Clone, Debug)]
pub struct Audit {
    houses: Vec<House>,
}

impl House {
    fn cpu_used(&self) -> i64 {
        self.guests.iter().map(|guest| guest.cpu).sum()
    }

    fn memory_used(&self) -> i64 {
        self.guests.iter().map(|guest| guest.memory).sum()
    }

    fn card_used(&self, card: usize) -> i64 {
        let on_card = |guest: &&Guest| guest.cards.contains(&card);
        self.guests
            .iter()
            .filter(on_card)
            .map(|guest| guest.milli)
            .sum()
    }

    /// Why the pod must not be on these cards.
    fn objection(&self, pod: &Pod, cards: &[usize]) -> Option<String> {
        if let Some(objection) = self.host_objection(pod) {
            return Some(objection);
        }
        if u32::try_from(cards.len()) != Ok(pod.cards) {
            return Some(format!(
                "gave {} cards instead of {}",
                cards.len(),
                pod.cards
            ));
        }
        cards.iter().enumerate().find_map(|(position, card)| {
            if *card >= self.node.cards {
                return Some(format!("has no card {card}"));
            }
            if cards.iter().skip(position + 1).any(|other| other == card) {
                return Some(format!("gave card {card} twice"));
            }
            let used = self.card_used(*card);
            (used + pod.milli > CARD).then(|| {
                format!(
                    "has {used} of {CARD} used on card {card}, {} more asked",
                    pod.milli
                )
            })
        })
    }

    fn host_objection(&self, pod: &Pod) -> Option<String> {
        if self.cpu_used() + pod.cpu > self.node.cpu {
            return Some("lacks CPU".into());
        }
        if self.memory_used() + pod.memory > self.node.memory {
            return Some("lacks memory".into());
        }
        if pod.cards > 0 && !pod.models.is_empty() && !pod.models.contains(&self.node.model) {
            return Some(format!("is of model {}", self.node.model));
        }
        None
    }

    fn has_room(&self, pod: &Pod) -> bool {
        if self.host_objection(pod).is_some() {
            return false;
        }
        let free = |card: &usize| CARD - self.card_used(*card) >= pod.milli;
        let free_cards = (0..self.node.cards).filter(free).count();
        u32::try_from(free_cards).is_ok_and(|cards| cards >= pod.cards)
    }
}

impl Audit {
    pub fn new(nodes: &[Node]) -> Self {
        let houses = nodes
            .iter()
            .map(|node| House {
                node: node.clone(),
                guests: Vec::new(),
            })
            .collect();
        Self { houses }
    }

    pub fn place(
        &mut self,
        id: u64,
        pod: &Pod,
        node: usize,
        cards: &[usize],
    ) -> Result<(), Violation> {
        let house = self
            .houses
            .get_mut(node)
            .ok_or(Violation::NoSuchNode(node))?;
        if let Some(reason) = house.objection(pod, cards) {
            return Err(Violation::Misplaced {
                pod: pod.name.clone(),
                node: house.node.name.clone(),
                reason,
            });
        }
        house.guests.push(Guest {
            id,
            cpu: pod.cpu,
            memory: pod.memory,
            milli: pod.milli,
            cards: cards.to_vec(),
        });
        Ok(())
    }

    /// A pod was refused: checks that it really fits nowhere.
    pub fn drop(&self, pod: &Pod) -> Result<(), Violation> {
        match self.houses.iter().find(|house| house.has_room(pod)) {
            Some(house) => Err(Violation::Dropped {
                pod: pod.name.clone(),
                node: house.node.name.clone(),
            }),
            None => Ok(()),
        }
    }

    pub fn leave(&mut self, id: u64, node: usize) -> Result<(), Violation> {
        let house = self
            .houses
            .get_mut(node)
            .ok_or(Violation::NoSuchNode(node))?;
        let position = house.guests.iter().position(|guest| guest.id == id);
        match position {
            Some(position) => {
                house.guests.swap_remove(position);
                Ok(())
            }
            None => Err(Violation::Absent {
                node: house.node.name.clone(),
            }),
        }
    }

    /// Compares the audit's free room on a node with what other books show.
    pub fn compare(
        &self,
        node: usize,
        cpu: i64,
        memory: i64,
        cards: &[i64],
    ) -> Result<(), Violation> {
        let house = self.houses.get(node).ok_or(Violation::NoSuchNode(node))?;
        let counted = (
            house.node.cpu - house.cpu_used(),
            house.node.memory - house.memory_used(),
            (0..house.node.cards)
                .map(|card| CARD - house.card_used(card))
                .collect::<Vec<i64>>(),
        );
        let believed = (cpu, memory, cards.to_vec());
        if counted == believed {
            return Ok(());
        }
        Err(Violation::Disagreement {
            node: house.node.name.clone(),
            counted: format!("{counted:?}"),
            believed: format!("{believed:?}"),
        })
    }
}
