//! Time for tests: budget periods of which none ends while a test runs, whatever the time of day, and timekeepers' clocks.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

/// The local hour at which a test begins.
const MORNING: i64 = 8;

/// A budget period of one day, in a time zone where it is morning now: midnight is far away in both directions.
pub fn day() -> Value {
    static ZONE: LazyLock<String> = LazyLock::new(|| {
        let hour = Timestamp::now().as_second().rem_euclid(86_400) / 3_600;
        zone_of_morning(hour)
    });
    json!({"kind": "Day", "timeZone": *ZONE})
}

/// The time zone where it is [`MORNING`] when it is this hour in UTC. It has no daylight saving time.
fn zone_of_morning(hour: i64) -> String {
    let east = MORNING - hour;
    // There are zones up to 12 hours west and 14 hours east.
    let east = if east < -12 { east + 24 } else { east };
    // These names count hours to the west.
    match -east {
        0 => "Etc/GMT".to_owned(),
        west => format!("Etc/GMT{west:+}"),
    }
}

/// Sets the clock of the timekeeper that reads this file so many seconds ahead of the machine's.
pub(crate) fn set_clock(file: &Path, ahead: i64) {
    // Replaced as a whole, so that the timekeeper never reads a half-written file.
    let new = file.with_extension("new");
    fs::write(&new, format!("{ahead:+}")).expect("written");
    fs::rename(new, file).expect("replaced");
}

#[cfg(test)]
mod tests {
    use gpushare_ledger::period::{Calendar, Schedule};

    use super::*;

    #[test]
    fn at_every_hour_midnight_is_far_away() {
        for hour in 0..24 {
            let day = Schedule::calendar(Calendar::Day, &zone_of_morning(hour)).expect("a zone");
            let now = 1_794_787_200 + hour * 3_600;
            let slot = day.slot(now).expect("a day");
            assert_eq!(now - slot.start, MORNING * 3_600, "at {hour}:00");
            assert_eq!(slot.end - slot.start, 86_400, "at {hour}:00");
        }
    }
}
