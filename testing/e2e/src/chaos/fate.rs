//! What happens to a request to the API server: a function of the weather, the seed and the request's number.

use std::fmt;
use std::time::Duration;

use gpushare_sim::random::Random;

/// How the network treats requests. Each kind is a network that really occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Requests pass undisturbed.
    Fair,
    /// Everything is delayed, so that requests overtake each other.
    Slow,
    /// Requests or their answers are lost.
    Lossy,
    /// Writes arrive twice, the second time later.
    Doubled,
    /// Binds arrive long after their sender has given up.
    LateBinds,
    /// Watches break, and cannot resume where they were.
    WatchStorm,
}

pub const WEATHERS: [Weather; 6] = [
    Weather::Fair,
    Weather::Slow,
    Weather::Lossy,
    Weather::Doubled,
    Weather::LateBinds,
    Weather::WatchStorm,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bind,
    /// Any other request that changes something.
    Write,
    Read,
    Watch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    /// The request arrives this much later, whether or not its sender still waits.
    Late(Duration),
    /// The connection breaks before the request arrives.
    Lost,
    /// The request arrives, and the connection breaks before its answer.
    Unanswered,
    /// The request arrives at once, and again this much later.
    Twice(Duration),
    /// The watch is answered as if its resource version were too old.
    Expired,
    /// The watch ends after this time.
    Breaks(Duration),
}

impl Fate {
    /// The name under which the tally counts it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "request passed",
            Self::Late(_) => "request late",
            Self::Lost => "request lost",
            Self::Unanswered => "answer lost",
            Self::Twice(_) => "request doubled",
            Self::Expired => "watch expired (410)",
            Self::Breaks(_) => "watch broken",
        }
    }
}

impl fmt::Display for Weather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fair => "fair",
            Self::Slow => "slow",
            Self::Lossy => "lossy",
            Self::Doubled => "doubled",
            Self::LateBinds => "late binds",
            Self::WatchStorm => "watch storm",
        })
    }
}

/// Every delay is shorter than this, so a calm has the patience to wait for all delayed requests.
pub const LATEST: Duration = Duration::from_secs(100);

/// What happens to the request with this number among the requests of its kind.
pub fn fate(weather: Weather, seed: u64, kind: Kind, number: u64) -> Fate {
    let mut dice = Dice(mix(seed ^ mix(number ^ ((kind as u64) << 56))));
    match (weather, kind) {
        (Weather::Fair, _)
        | (Weather::LateBinds, Kind::Write | Kind::Read | Kind::Watch)
        | (Weather::WatchStorm, Kind::Bind | Kind::Write | Kind::Read)
        | (Weather::Doubled, Kind::Read | Kind::Watch)
        | (Weather::Lossy, Kind::Watch) => Fate::Pass,
        (Weather::Slow, Kind::Watch) => Fate::Breaks(dice.millis(500, 5_000)),
        (Weather::Slow, _) => match dice.below(5) {
            0 => Fate::Late(dice.millis(2_000, 6_000)),
            _ => Fate::Late(dice.millis(0, 700)),
        },
        (Weather::Lossy, _) => match dice.below(6) {
            0 => Fate::Lost,
            1 => Fate::Unanswered,
            _ => Fate::Pass,
        },
        (Weather::Doubled, _) => match dice.below(3) {
            0 => Fate::Twice(dice.millis(0, 300)),
            1 => Fate::Twice(dice.millis(1_000, 15_000)),
            _ => Fate::Pass,
        },
        (Weather::LateBinds, Kind::Bind) => match dice.below(8) {
            0 | 1 => Fate::Pass,
            2..5 => Fate::Late(dice.millis(3_000, 14_000)),
            5 | 6 => Fate::Late(dice.millis(10_000, 35_000)),
            _ => Fate::Late(dice.millis(35_000, 90_000)),
        },
        (Weather::WatchStorm, Kind::Watch) => match dice.below(3) {
            0 => Fate::Expired,
            _ => Fate::Breaks(dice.millis(10, 1_500)),
        },
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % limit
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// Every bit of the result depends on every bit of the number.
fn mix(number: u64) -> u64 {
    Random::new(number).draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fate_of_a_request_follows_from_seed_and_number() {
        let fates = |seed| -> Vec<Fate> {
            (0..50)
                .map(|number| fate(Weather::LateBinds, seed, Kind::Bind, number))
                .collect()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    #[test]
    fn nothing_is_kept_back_longer_than_the_calm_waits() {
        let kinds = [Kind::Bind, Kind::Write, Kind::Read, Kind::Watch];
        for weather in WEATHERS {
            for (kind, number) in kinds
                .into_iter()
                .flat_map(|kind| (0..500).map(move |n| (kind, n)))
            {
                if let Fate::Late(by) | Fate::Twice(by) = fate(weather, 9, kind, number) {
                    assert!(by < LATEST, "{weather}: {by:?}");
                }
            }
        }
    }

    #[test]
    fn binds_come_late_by_more_than_a_minute() {
        let late = |number| match fate(Weather::LateBinds, 1, Kind::Bind, number) {
            Fate::Late(by) => by,
            _ => Duration::ZERO,
        };
        assert!((0..100).map(late).max() > Some(Duration::from_mins(1)));
    }
}
