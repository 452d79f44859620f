//! Why the cards of a node do not suffice: the fewest obstacles.

use super::{EVERYTHING, Found, Group, NOTHING, number};
use crate::amounts::MAX_DIMENSIONS;
use crate::request::{ContainerAsk, Want};
use crate::room::CardRoom;
use crate::steps::Steps;
use crate::why::{Obstacles, Shortage, Why};

/// The fewest obstacles first; among equally many, those that resolve by themselves first.
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

/// The steps of the request were used up before the answer was found.
struct OutOfSteps;

impl Group<'_> {
    pub(super) fn lacks_cards(&self, cards: &[CardRoom]) -> Option<Why> {
        let none = self.considered(cards, EVERYTHING).next().is_none();
        none.then(|| Why::NoCards {
            class: self.class.name.clone(),
        })
    }

    /// Why the pod does not fit on these cards; `None` if the steps do not suffice to find out. The
    /// caller knows that it does not fit.
    pub(super) fn refusal(&self, cards: &[CardRoom], steps: &Steps) -> Option<Why> {
        if let Some(why) = self.lacks_cards(cards) {
            return Some(why);
        }
        let by = match self.asks.as_slice() {
            [ask] => {
                steps.count(cards.len() * 2);
                let kept = self.kept_from(ask, cards);
                let wanted = number(ask.cards);
                BY_NUMBER.into_iter().find(|by| kept.without(*by) >= wanted)
            }
            asks => {
                let by = self.fewest_obstacles(cards, steps).ok()?;
                if !steps.spend_all(cards.len() * asks.len()) {
                    return None;
                }
                by
            }
        };
        let class = self.class.name.clone();
        Some(match by {
            Some(by) => Why::Blocked {
                class,
                by,
                short: self.shortage(cards, Obstacles { room: false, ..by }),
                outlived: by.room && cards.iter().any(CardRoom::is_outlived),
            },
            None => Why::TooSmall {
                class,
                short: self.shortage(cards, EVERYTHING),
            },
        })
    }

    /// The fewest obstacles without which several containers would fit; `None` if they would not fit
    /// even without any obstacle.
    fn fewest_obstacles(
        &self,
        cards: &[CardRoom],
        steps: &Steps,
    ) -> Result<Option<Obstacles>, OutOfSteps> {
        if !steps.spend_all(cards.len()) {
            return Err(OutOfSteps);
        }
        let mut of_class = self.considered(cards, EVERYTHING);
        let unhealthy = of_class.any(|room| !room.card.healthy);
        let mut of_class = self.considered(cards, EVERYTHING);
        let unaccepted = of_class.any(|room| !self.accepts(room));
        // Removing an obstacle that does not exist changes nothing, so such sets are skipped.
        let there = |by: &Obstacles| (!by.health || unhealthy) && (!by.choice || unaccepted);
        for by in BY_NUMBER.into_iter().filter(there) {
            match self.found_without(cards, by, steps) {
                Found::Here(_) => return Ok(Some(by)),
                Found::Nowhere => {}
                Found::Unknown => return Err(OutOfSteps),
            }
        }
        Ok(None)
    }

    /// What keeps each card from the only asking container, in one pass over the cards.
    fn kept_from(&self, ask: &ContainerAsk, cards: &[CardRoom]) -> Kept {
        let mut kept = Kept::default();
        for room in self.considered(cards, EVERYTHING) {
            let capacity = &room.card.capacity;
            if ask.want.on(capacity).fits_in(capacity) {
                kept.count(Obstacles {
                    room: !room.admits(&ask.want),
                    health: !room.card.healthy,
                    choice: !self.accepts(room),
                });
            }
        }
        kept
    }

    /// What the first request that cannot be met by itself lacks. If each can be met by itself, they
    /// fail only together.
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

/// The number of cards for each combination of obstacles that keeps them from a container.
#[derive(Default)]
struct Kept([usize; 8]);

impl Kept {
    fn count(&mut self, by: Obstacles) {
        if let Some(cards) = self.0.get_mut(bits(by)) {
            *cards += 1;
        }
    }

    /// How many cards could be used without these obstacles.
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

/// The element at `place` in descending order, counted from 1.
fn largest<T: Ord>(each: impl Iterator<Item = T>, place: usize) -> Option<T> {
    if place == 1 {
        return each.max();
    }
    let mut each: Vec<T> = each.collect();
    each.sort_unstable_by(|a, b| b.cmp(a));
    each.into_iter().nth(place.checked_sub(1)?)
}
