//! Durations as kubectl shows them: one or two units, coarser for longer durations.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// How long ago a time of an object was; `<unknown>` if there is none.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => short(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// From one time to another, or to now if there is no other; empty without a start.
pub(super) fn between(from: &str, to: &str, now: Timestamp) -> String {
    let Ok(from) = from.parse::<Timestamp>() else {
        return String::new();
    };
    let to = to.parse().unwrap_or(now);
    short(to.as_second() - from.as_second())
}

fn short(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let two = |unit: i64, name: char, smaller: i64, smaller_name: char| match (
        seconds / unit,
        seconds % unit / smaller,
    ) {
        (count, 0) => format!("{count}{name}"),
        (count, rest) => format!("{count}{name}{rest}{smaller_name}"),
    };
    match seconds {
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(MINUTE, 'm', 1, 's'),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(HOUR, 'h', MINUTE, 'm'),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(DAY, 'd', HOUR, 'h'),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_the_coarser() {
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3600, "60m"),
            (4 * HOUR + 5 * MINUTE, "4h5m"),
            (30 * HOUR, "30h"),
            (3 * DAY, "3d"),
            (3 * DAY + HOUR, "3d1h"),
            (100 * DAY, "100d"),
            (3 * YEAR + 2 * DAY, "3y2d"),
            (9 * YEAR, "9y"),
        ] {
            assert_eq!(short(seconds), expected, "{seconds}");
        }
        assert_eq!(since("", Timestamp::UNIX_EPOCH), "<unknown>");
    }
}
