//! What a pod asks for, after validation.

use std::sync::Arc;

use crate::amounts::{Amounts, MAX_DIMENSIONS};
use crate::choice::Choice;

/// A pod may ask for cards in at most this many containers; one that asks for two classes counts twice. That is more
/// than any real pod needs, and few enough to search for a placement.
pub const MOST_ASKING: usize = 32;
/// How many cards a pod may ask for in all: 8 for each container that may ask. Each container's cards are counted
/// separately, even if containers share them.
pub const MOST_CARDS_IN_ALL: usize = 256;

/// When a container of a pod runs. This decides whether its share adds to the other containers' shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Runs alone, before the containers.
    Init,
    /// An init container with `restartPolicy: Always`: runs from its turn to the pod's end.
    Sidecar,
    App,
    /// Added to a running pod for debugging. It can hold no device, so a valid request has none.
    Ephemeral,
}

/// What a container needs of each of its cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// The card alone, whatever its size.
    Whole,
    /// A part of it.
    Share(Part),
}

/// A part of a card: fixed amounts, plus percents of whatever size the card has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    pub amounts: Amounts,
    pub percent: Amounts,
}

impl Part {
    /// The amounts on a card of this capacity.
    pub fn on(&self, capacity: &Amounts) -> Amounts {
        if self.percent.is_zero() {
            return self.amounts;
        }
        self.amounts
            .saturating_add(&self.percent.percent_of(capacity))
    }
}

impl Part {
    /// Whether these can be its amounts on some card; percents depend on the card's size, which is not known here.
    pub fn could_be(&self, amounts: &Amounts) -> bool {
        (0..MAX_DIMENSIONS).all(|dimension| {
            let (fixed, found) = (self.amounts.get(dimension), amounts.get(dimension));
            fixed == found || (self.percent.get(dimension) > 0 && fixed <= found)
        })
    }
}

impl Want {
    pub fn share(amounts: Amounts) -> Self {
        Self::Share(Part {
            amounts,
            percent: Amounts::ZERO,
        })
    }

    /// What is taken of a card of this capacity.
    pub fn on(&self, capacity: &Amounts) -> Amounts {
        match self {
            Self::Whole => *capacity,
            Self::Share(part) => part.on(capacity),
        }
    }
}

/// One container's valid request for cards of one class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerAsk {
    pub container: Box<str>,
    pub role: Role,
    /// Its place among the pod's containers, or among its init containers.
    pub index: u32,
    pub class: Arc<str>,
    pub dialect: Arc<str>,
    /// How many cards; each gives the same amounts.
    pub cards: u32,
    pub want: Want,
    /// What the container may use of each card if that is less than it holds, as with a whole card and a memory limit.
    /// Zero means no limit.
    pub limit: Amounts,
    pub choice: Arc<Choice>,
}

impl ContainerAsk {
    /// What the container may use of a card of this capacity.
    pub fn usable(&self, capacity: &Amounts) -> Amounts {
        self.want.on(capacity).capped(&self.limit)
    }
}

/// A pod's valid request: at least one container, in the pod's own order (init containers first). A container that asks
/// for two classes appears twice. Clones share the list, because many pods are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodAsk {
    pub containers: Arc<[ContainerAsk]>,
}

impl PodAsk {
    /// A container's request for one class.
    pub fn container(&self, class: &str, name: &str) -> Option<&ContainerAsk> {
        self.containers
            .iter()
            .find(|ask| *ask.class == *class && *ask.container == *name)
    }

    /// Whether several containers ask for cards of one class, so that their placements depend on each other.
    pub fn is_complex(&self) -> bool {
        self.classes().count() < self.containers.len()
    }

    /// The classes asked for, each once, in the order of the containers.
    pub fn classes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.containers.iter().enumerate().filter_map(|(at, ask)| {
            let before = self.containers.iter().take(at);
            (!before.into_iter().any(|other| other.class == ask.class)).then_some(&ask.class)
        })
    }

    /// The requests for cards of one class.
    pub fn of_class<'a>(
        &'a self,
        class: &'a str,
    ) -> impl Iterator<Item = &'a ContainerAsk> + Clone {
        self.containers
            .iter()
            .filter(move |ask| *ask.class == *class)
    }
}

/// The most that containers hold at any moment: init containers run one after the other, beside the sidecars that
/// started before them; then apps and sidecars run together. Saturates on overflow; no card can hold that much.
pub fn peak(containers: impl Iterator<Item = (Role, Amounts)>) -> Amounts {
    let mut lasting = Amounts::ZERO;
    let mut highest = Amounts::ZERO;
    for (role, amounts) in containers {
        let now = lasting.saturating_add(&amounts);
        highest = highest.max_each(&now);
        if role != Role::Init {
            lasting = now;
        }
    }
    highest.max_each(&lasting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(containers: &[(Role, u64)], expected: u64) {
        let amounts = containers
            .iter()
            .map(|(role, amount)| (*role, Amounts::of(0, *amount)));
        assert_eq!(peak(amounts), Amounts::of(0, expected), "{containers:?}");
    }

    #[test]
    fn apps_add_up() {
        check(&[(Role::App, 3), (Role::App, 4)], 7);
    }

    #[test]
    fn init_containers_run_one_after_the_other() {
        check(&[(Role::Init, 5), (Role::Init, 6), (Role::App, 2)], 6);
        check(&[(Role::Init, 5), (Role::App, 4), (Role::App, 4)], 8);
    }

    #[test]
    fn a_sidecar_counts_with_later_init_containers_and_with_the_apps() {
        check(&[(Role::Sidecar, 2), (Role::Init, 5), (Role::App, 1)], 7);
        check(&[(Role::Init, 5), (Role::Sidecar, 2), (Role::App, 1)], 5);
        check(&[(Role::Sidecar, 2), (Role::App, 4)], 6);
    }

    #[test]
    fn an_overflow_stays_too_large() {
        check(&[(Role::App, u64::MAX), (Role::App, 4)], u64::MAX);
    }
}
