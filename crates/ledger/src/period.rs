//! When periods begin and end: calendar periods of a time zone with its clock changes, and rolling windows.
//!
//! Pure functions of the given moments and the compiled-in time zones: every replica and every image computes the same.

use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan};
use thiserror::Error;

use crate::Seconds;

const HOUR: Seconds = 3_600;
const DAY: Seconds = 86_400;

/// From `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub start: Seconds,
    pub end: Seconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calendar {
    Month,
    Week,
    Day,
}

/// How a budget's time is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    Calendar {
        unit: Calendar,
        zone: TimeZone,
    },
    /// What was used in the last `window` seconds counts. Time is booked in slots, and a slot leaves the window
    /// as a whole, at most one slot late.
    Rolling {
        window: Seconds,
    },
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PeriodError {
    #[error("there is no time zone {0:?} in the IANA database; write one such as Europe/Berlin")]
    Zone(String),
    #[error("the window {0:?} is not a duration from 1h to 366d, such as 7d")]
    Window(String),
    #[error("a calendar cannot reach the moment {0}")]
    OutOfReach(Seconds),
}

impl Span {
    pub const fn new(start: Seconds, end: Seconds) -> Self {
        Self { start, end }
    }

    pub fn contains(&self, at: Seconds) -> bool {
        (self.start..self.end).contains(&at)
    }

    /// How many seconds both have in common.
    pub fn overlap(&self, other: &Self) -> Seconds {
        (self.end.min(other.end) - self.start.max(other.start)).max(0)
    }
}

impl Schedule {
    pub fn calendar(unit: Calendar, zone: &str) -> Result<Self, PeriodError> {
        let zone = TimeZoneDatabase::bundled()
            .get(zone)
            .map_err(|_| PeriodError::Zone(zone.to_owned()))?;
        Ok(Self::Calendar { unit, zone })
    }

    pub fn rolling(window: &str) -> Result<Self, PeriodError> {
        let seconds = crate::money::duration_seconds(window);
        let seconds = seconds.filter(|seconds| (HOUR..=366 * DAY).contains(seconds));
        let window = seconds.ok_or_else(|| PeriodError::Window(window.to_owned()))?;
        Ok(Self::Rolling { window })
    }

    /// The stretch of time whose charges are booked together: the calendar period, or the slot.
    pub fn slot(&self, at: Seconds) -> Result<Span, PeriodError> {
        match self {
            Self::Calendar { unit, zone } => calendar(*unit, zone, at),
            Self::Rolling { window } => {
                let slot = if *window >= DAY { HOUR } else { 60 };
                let start = at - at.rem_euclid(slot);
                Ok(Span::new(start, start + slot))
            }
        }
    }

    /// The time that counts at a moment: the balance includes the slots that begin in it.
    pub fn counted(&self, at: Seconds) -> Result<Span, PeriodError> {
        let slot = self.slot(at)?;
        match self {
            Self::Calendar { .. } => Ok(slot),
            Self::Rolling { window } => Ok(Span::new(self.slot(at - window)?.start, slot.end)),
        }
    }
}

fn calendar(unit: Calendar, zone: &TimeZone, at: Seconds) -> Result<Span, PeriodError> {
    let out_of_reach = |_: jiff::Error| PeriodError::OutOfReach(at);
    let moment = Timestamp::from_second(at).map_err(out_of_reach)?;
    let today = zone.to_datetime(moment).date();
    let (first, length) = match unit {
        Calendar::Month => (today.first_of_month(), 1.month()),
        Calendar::Week => {
            let since = today.weekday().since(Weekday::Monday);
            let monday = today.checked_sub(i64::from(since).days());
            (monday.map_err(out_of_reach)?, 1.week())
        }
        Calendar::Day => (today, 1.day()),
    };
    let next = first.checked_add(length).map_err(out_of_reach)?;
    // Where the clock skips midnight, the day begins with the first moment after it.
    let begins = |date: jiff::civil::Date| date.to_zoned(zone.clone()).map_err(out_of_reach);
    Ok(Span::new(
        begins(first)?.timestamp().as_second(),
        begins(next)?.timestamp().as_second(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Seconds {
        text.parse::<Timestamp>().unwrap().as_second()
    }

    /// Each case is a zone, a moment, and where the slot of that moment begins and ends.
    fn check(unit: Calendar, cases: &[&str]) {
        for case in cases {
            let words: Vec<&str> = case.split_whitespace().collect();
            let [at, start, end] = [1, 2, 3].map(|word| seconds(words[word]));
            let schedule = Schedule::calendar(unit, words[0]).unwrap();
            let slot = schedule.slot(at).unwrap();
            assert_eq!(slot, Span::new(start, end), "{unit:?} {case}");
        }
    }

    #[test]
    fn months_begin_at_midnight_of_the_zone_also_when_the_clock_changes() {
        check(
            Calendar::Month,
            &[
                "UTC           2026-02-28T23:59:59Z 2026-02-01T00:00:00Z 2026-03-01T00:00:00Z",
                "Europe/Berlin 2026-03-15T12:00:00Z 2026-02-28T23:00:00Z 2026-03-31T22:00:00Z",
                "Europe/Berlin 2026-03-31T22:00:00Z 2026-03-31T22:00:00Z 2026-04-30T22:00:00Z",
                "Asia/Kolkata  2026-12-31T18:30:00Z 2026-12-31T18:30:00Z 2027-01-31T18:30:00Z",
            ],
        );
    }

    #[test]
    fn weeks_begin_on_monday() {
        check(
            Calendar::Week,
            &[
                "UTC 2026-11-15T23:59:59Z 2026-11-09T00:00:00Z 2026-11-16T00:00:00Z",
                "UTC 2026-11-16T00:00:00Z 2026-11-16T00:00:00Z 2026-11-23T00:00:00Z",
            ],
        );
    }

    #[test]
    fn days_have_23_or_25_hours_when_the_clock_changes() {
        check(
            Calendar::Day,
            &[
                "Europe/Berlin 2026-03-29T10:00:00Z 2026-03-28T23:00:00Z 2026-03-29T22:00:00Z",
                "Europe/Berlin 2026-10-25T10:00:00Z 2026-10-24T22:00:00Z 2026-10-25T23:00:00Z",
            ],
        );
    }

    #[test]
    fn a_midnight_that_is_skipped_begins_when_the_clock_goes_on() {
        check(
            Calendar::Day,
            &["Africa/Cairo 2024-04-26T10:00:00Z 2024-04-25T22:00:00Z 2024-04-26T21:00:00Z"],
        );
    }

    #[test]
    fn slots_join_without_gaps_over_two_years_in_any_zone() {
        for zone in [
            "UTC",
            "Europe/Berlin",
            "America/New_York",
            "Africa/Cairo",
            "Australia/Lord_Howe",
            "Pacific/Apia",
        ] {
            for unit in [Calendar::Month, Calendar::Week, Calendar::Day] {
                let schedule = Schedule::calendar(unit, zone).unwrap();
                let mut at = seconds("2025-01-01T12:00:00Z");
                while at < seconds("2027-01-01T00:00:00Z") {
                    let slot = schedule.slot(at).unwrap();
                    assert!(slot.contains(at), "{zone} {unit:?} {at}");
                    let last = schedule.slot(slot.end - 1).unwrap();
                    assert_eq!(last, slot, "{zone} {unit:?}");
                    let next = schedule.slot(slot.end).unwrap();
                    assert_eq!(next.start, slot.end, "{zone} {unit:?}");
                    at = slot.end;
                }
            }
        }
    }

    #[test]
    fn a_rolling_window_counts_whole_slots_and_never_less_than_the_window() {
        let week = Schedule::rolling("7d").unwrap();
        let at = seconds("2026-11-16T10:30:00Z");
        let counted = week.counted(at).unwrap();
        assert_eq!(counted.start, seconds("2026-11-09T10:00:00Z"));
        assert_eq!(counted.end, seconds("2026-11-16T11:00:00Z"));
        let short = Schedule::rolling("2h").unwrap();
        assert_eq!(short.slot(61).unwrap(), Span::new(60, 120));
        assert_eq!(short.slot(-1).unwrap(), Span { start: -60, end: 0 });
    }

    #[test]
    fn unknown_zones_and_windows_are_refused() {
        let zone = Schedule::calendar(Calendar::Day, "Europe/Atlantis");
        assert_eq!(zone, Err(PeriodError::Zone("Europe/Atlantis".to_owned())));
        for window in ["", "59m", "367d", "x"] {
            assert!(Schedule::rolling(window).is_err(), "{window}");
        }
    }
}
