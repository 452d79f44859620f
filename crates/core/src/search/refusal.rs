//! Why the cards of a node do not do: the fewest things that stand in the way.

use super::{EVERYTHING, Group, NOTHING, admits, number};
use crate::amounts::MAX_DIMENSIONS;
use crate::request::{ContainerAsk, Want};
use crate::room::CardRoom;
use crate::why::{Obstacles, Shortage, Why};

/// Fewest first; of equally many, the one that passes by itself first.
const BY_NUMBER: [Obstacles; 7] = [
    Obstacles {
        room: true,
        ..NOTHING
    },
    Obstacles {
        health: true,
        ..NOTHING
    },
    Obstacles {
        choice: true,
        ..NOTHING
    },
    Obstacles {
        choice: false,
        ..EVERYTHING
    },
    Obstacles {
        health: false,
        ..EVERYTHING
    },
    Obstacles {
        room: false,
        ..EVERYTHING
    },
    EVERYTHING,
];

impl Group<'_> {
    pub(super) fn why(&self, cards: &[CardRoom]) -> Option<Why> {
        (!self.fits(cards, NOTHING)).then(|| self.refusal(cards))
    }

    pub(super) fn refusal(&self, cards: &[CardRoom]) -> Why {
        let class = self.class.name.clone();
        if self.considered(cards, EVERYTHING).next().is_none() {
            return Why::NoCards { class };
        }
        let by = match self.asks.as_slice() {
            [ask] => {
                let kept = self.kept_from(ask, cards);
                let wanted = number(ask.cards);
                BY_NUMBER.into_iter().find(|by| kept.without(*by) >= wanted)
            }
            _ => BY_NUMBER.into_iter().find(|by| self.fits(cards, *by)),
        };
        match by {
            Some(by) => Why::Blocked {
                class,
                by,
                short: self.shortage(cards, Obstacles { room: false, ..by }),
            },
            None => Why::TooSmall {
                class,
                short: self.shortage(cards, EVERYTHING),
            },
        }
    }

    /// What keeps each card from a container that asks alone, in one look at the cards.
    fn kept_from(&self, ask: &ContainerAsk, cards: &[CardRoom]) -> Kept {
        let mut kept = Kept::default();
        for room in self.considered(cards, EVERYTHING) {
            if admits(room, &ask.want, EVERYTHING) {
                kept.count(Obstacles {
                    room: !room.admits(&ask.want),
                    health: !room.card.healthy,
                    choice: !self.accepts(room),
                });
            }
        }
        kept
    }

    /// What the first request that fails for itself lacks; if none does, they fail together.
    fn shortage(&self, cards: &[CardRoom], without: Obstacles) -> Shortage {
        let rooms: Vec<&CardRoom> = self.considered(cards, without).collect();
        let lacking = |ask: &&ContainerAsk| self.lacks(ask, &rooms, without.room);
        let most = self.asks.iter().map(|ask| ask.cards).max().unwrap_or(1);
        let together = Shortage::Together {
            wanted: if self.asks.len() > 1 {
                most.max(2)
            } else {
                most
            },
        };
        self.asks.iter().find_map(lacking).unwrap_or(together)
    }

    fn lacks(&self, ask: &ContainerAsk, rooms: &[&CardRoom], emptied: bool) -> Option<Shortage> {
        let wanted = number(ask.cards);
        if rooms.len() < wanted {
            return Some(Shortage::Cards {
                wanted: ask.cards,
                there: u32::try_from(rooms.len()).unwrap_or(u32::MAX),
            });
        }
        let part = match &ask.want {
            Want::Whole => {
                let untouched = rooms.iter().filter(|room| emptied || room.is_untouched());
                let untouched = untouched.count();
                return (untouched < wanted).then(|| Shortage::Whole {
                    wanted: ask.cards,
                    untouched: u32::try_from(untouched).unwrap_or(u32::MAX),
                });
            }
            Want::Share(part) => part,
        };
        let on = |room: &CardRoom| {
            let free = if emptied {
                room.card.capacity
            } else {
                room.free()
            };
            (free, part.on(&room.card.capacity))
        };
        (0..MAX_DIMENSIONS).find_map(|dimension| {
            let each = rooms.iter().map(|room| {
                let (free, needed) = on(room);
                (free.get(dimension), needed.get(dimension))
            });
            let (most, needed) = largest(each, wanted)?;
            let named = self.class.dimension(dimension)?;
            (most < needed).then(|| Shortage::amount(ask.cards, named, needed, most))
        })
    }
}

/// Cards by what keeps them from a container.
#[derive(Default)]
struct Kept([usize; 8]);

impl Kept {
    fn count(&mut self, by: Obstacles) {
        if let Some(cards) = self.0.get_mut(bits(by)) {
            *cards += 1;
        }
    }

    /// How many would do without these obstacles.
    fn without(&self, obstacles: Obstacles) -> usize {
        let gone = bits(obstacles);
        let kept = self.0.iter().enumerate();
        kept.filter(|(by, _)| by & !gone == 0)
            .map(|(_, cards)| cards)
            .sum()
    }
}

fn bits(obstacles: Obstacles) -> usize {
    let Obstacles {
        room,
        health,
        choice,
    } = obstacles;
    usize::from(room) | usize::from(health) << 1 | usize::from(choice) << 2
}

/// The largest but so many, counted from 1.
fn largest<T: Ord>(each: impl Iterator<Item = T>, place: usize) -> Option<T> {
    if place == 1 {
        return each.max();
    }
    let mut each: Vec<T> = each.collect();
    each.sort_unstable_by(|a, b| b.cmp(a));
    each.into_iter().nth(place.checked_sub(1)?)
}
