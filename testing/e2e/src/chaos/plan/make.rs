//! Makes the list of steps from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    Action, Behaviour, COMPONENTS, Deletion, NAMES, PARTS, Part, Plan, ROUND, Shape, Slot, Step,
};
use crate::chaos::fate::{WEATHERS, Weather};
use crate::chaos::tenants::EDITS;
use crate::rng::Rng;

const DELETIONS: [Deletion; 4] = [
    Deletion::Plain,
    Deletion::LongThenForced,
    Deletion::Forced,
    Deletion::Evicted,
];

/// How many pods a round creates at its start, if their names are free.
const FIRST_PODS: usize = 6;

/// The plan of a seed, for this many minutes of injections.
pub fn plan(seed: u64, minutes: u64) -> Plan {
    let rounds = (minutes * 60 / ROUND.as_secs()).max(1);
    // The first numbers of this weak generator are similar for similar seeds, so the loop skips them.
    let mut rng = Rng::new(
        seed.wrapping_add(0x5EED)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93),
    );
    for _ in 0..16 {
        rng.below(2);
    }
    let rounds = (0..rounds).map(|_| round(&mut rng)).collect();
    Plan { seed, rounds }
}

fn round(rng: &mut Rng) -> Vec<Step> {
    let mut maker = Maker {
        rng,
        steps: Vec::new(),
        busy: BTreeMap::new(),
        restarts: 0,
    };
    let mut at = Duration::ZERO;
    // Without pods nothing could go wrong.
    for _ in 0..FIRST_PODS {
        let (slot, shape) = (maker.slot(), maker.shape());
        maker.push(at, Action::Create(slot, shape));
    }
    let first = weather(maker.rng);
    maker.push(at, Action::Weather(first));
    while at < ROUND {
        maker.one(at);
        at += Duration::from_millis(100 + maker.below(900));
    }
    maker.steps.sort_by_key(|step| step.at);
    maker.steps
}

fn weather(rng: &mut Rng) -> Weather {
    WEATHERS[rng.below(WEATHERS.len())]
}

struct Maker<'a> {
    rng: &'a mut Rng,
    steps: Vec<Step>,
    /// Until when each part is killed or frozen.
    busy: BTreeMap<Part, Duration>,
    restarts: u32,
}

impl Maker<'_> {
    fn below(&mut self, limit: usize) -> u64 {
        self.rng.below(limit) as u64
    }

    fn push(&mut self, at: Duration, action: Action) {
        self.steps.push(Step { at, action });
    }

    /// Chooses one action for this moment.
    fn one(&mut self, at: Duration) {
        match self.below(100) {
            0..34 => {
                let (slot, shape) = (self.slot(), self.shape());
                self.push(at, Action::Create(slot, shape));
            }
            34..52 => {
                let (slot, how) = (self.slot(), self.deletion());
                self.push(at, Action::Delete(slot, how));
            }
            52..70 => {
                let (slot, edit) = (self.slot(), self.rng.below(EDITS.len()));
                self.push(at, Action::Edit(slot, edit));
            }
            70..77 => {
                let weather = weather(self.rng);
                self.push(at, Action::Weather(weather));
            }
            77..80 => self.push(at, Action::CutWatches),
            80..87 => self.kill(at),
            87..92 => self.freeze(at),
            92..95 => {
                let ahead = [-40, -3, 0, 2, 45][self.rng.below(5)];
                self.push(at, Action::Clock(ahead));
            }
            _ => self.restart(at),
        }
    }

    fn slot(&mut self) -> Slot {
        Slot {
            metered: self.below(2) == 0,
            number: self.rng.below(NAMES),
        }
    }

    fn shape(&mut self) -> Shape {
        let behaviour = match self.below(6) {
            0..3 => Behaviour::Obedient,
            3..5 => Behaviour::Stubborn {
                grace: 2 + u32::try_from(self.below(24)).unwrap_or(0),
            },
            _ => Behaviour::Job {
                seconds: 1 + u32::try_from(self.below(8)).unwrap_or(0),
            },
        };
        let cards = if self.below(6) == 0 { 2 } else { 1 };
        Shape {
            gib: [2, 4, 6, 8, 10, 16][self.rng.below(6)],
            cards,
            behaviour,
        }
    }

    fn deletion(&mut self) -> Deletion {
        DELETIONS[self.rng.below(DELETIONS.len())]
    }

    fn kill(&mut self, at: Duration) {
        if let Some(part) = self.idle_part(at) {
            let back = at + Duration::from_millis(self.below(5_000));
            self.push(at, Action::Kill(part));
            self.push(back, Action::Start(part));
            self.busy.insert(part, back);
        }
    }

    fn freeze(&mut self, at: Duration) {
        if let Some(part) = self.idle_part(at) {
            let most = match part {
                // Long enough that the lease can expire.
                Part::ExtenderOne | Part::ExtenderTwo => 22_000,
                Part::Agent | Part::Timekeeper => 9_000,
                Part::Webhook => 3_000,
            };
            let back = at + Duration::from_millis(500 + self.below(most));
            self.push(at, Action::Freeze(part));
            self.push(back, Action::Thaw(part));
            self.busy.insert(part, back);
        }
    }

    /// A part that is neither killed nor frozen at this time.
    fn idle_part(&mut self, at: Duration) -> Option<Part> {
        let part = PARTS[self.rng.below(PARTS.len())];
        let idle = self.busy.get(&part).is_none_or(|until| *until < at);
        idle.then_some(part)
    }

    /// The cluster's own programs need time to come back, so this is rare.
    fn restart(&mut self, at: Duration) {
        let choice = self.rng.below(COMPONENTS.len() + 1);
        if self.restarts < 2 {
            self.restarts += 1;
            let action = COMPONENTS
                .get(choice)
                .map_or(Action::RecreateNode, |name| Action::Restart(name));
            self.push(at, action);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_plan_and_another_one_another() {
        assert_eq!(plan(7, 2), plan(7, 2));
        assert_ne!(plan(7, 2).rounds, plan(8, 2).rounds);
    }

    #[test]
    fn a_longer_plan_begins_as_the_shorter_one() {
        let (short, long) = (plan(3, 1), plan(3, 2));
        assert_eq!(short.rounds[..], long.rounds[..2]);
        assert_eq!(long.rounds.len(), 4);
    }

    #[test]
    fn whatever_is_killed_or_frozen_comes_back_before_anything_else_is_done_to_it() {
        for seed in 0..50 {
            for steps in plan(seed, 1).rounds {
                let mut down: BTreeMap<Part, Action> = BTreeMap::new();
                for Step { action, .. } in steps {
                    match action {
                        Action::Kill(part) | Action::Freeze(part) => {
                            assert_eq!(down.insert(part, action), None, "seed {seed}");
                        }
                        Action::Start(part) => {
                            assert_eq!(down.remove(&part), Some(Action::Kill(part)));
                        }
                        Action::Thaw(part) => {
                            assert_eq!(down.remove(&part), Some(Action::Freeze(part)));
                        }
                        _ => {}
                    }
                }
                assert!(down.is_empty(), "seed {seed}: {down:?}");
            }
        }
    }

    #[test]
    fn almost_every_seed_begins_with_metered_pods_and_so_do_those_of_ci() {
        let begins = |seed: &u64| plan(*seed, 1).begins_with_metered_pods();
        assert!([1, 2].iter().all(begins));
        assert!((1..=100).filter(begins).count() > 90);
    }

    #[test]
    fn twenty_seeds_of_a_minute_inject_everything_there_is() {
        let plans = (1..=20).flat_map(|seed| plan(seed, 1).rounds);
        let seen: BTreeSet<String> = plans.flatten().map(|step| step.action.kind()).collect();
        let parts = PARTS.into_iter().flat_map(|part| {
            [
                Action::Kill(part),
                Action::Freeze(part),
                Action::Start(part),
                Action::Thaw(part),
            ]
        });
        let weathers = WEATHERS.into_iter().map(Action::Weather);
        let restarts = COMPONENTS.into_iter().map(Action::Restart);
        let others = [Action::RecreateNode, Action::Clock(1), Action::CutWatches];
        let all = parts.chain(weathers).chain(restarts).chain(others);
        for action in all {
            assert!(seen.contains(&action.kind()), "never: {action}");
        }
    }
}
