//! When the timekeeper is queried: at an interval that differs between pods, and less and less often while it does
//! not answer.

use std::time::Duration;

use uuid::Uuid;

use super::ask::Timekeeper;
use super::publish::Board;
use super::report::BudgetReport;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Polls and publishes for ever.
pub(super) async fn run(timekeeper: Timekeeper, board: Board, interval: Duration) {
    let mut report = board
        .last()
        .unwrap_or_else(BudgetReport::nothing)
        .grown_stale();
    board.show(&report);
    let mut failures = 0_u32;
    let mut silent = true;
    loop {
        match timekeeper.ask().await {
            Ok(answer) => {
                if silent {
                    tracing::info!("the timekeeper answers");
                }
                (failures, silent) = (0, false);
                report = BudgetReport::learned(answer, jiff::Timestamp::now());
            }
            Err(silence) => {
                (failures, silent) = (failures.saturating_add(1), true);
                tracing::warn!(%silence, failures, "the last known budget holds");
                report = report.grown_stale();
            }
        }
        board.show(&report);
        tokio::time::sleep(pause(interval, failures, random())).await;
    }
}

/// Between 80 and 120 percent of the pause that is due. Otherwise pods that started together, or that saw the
/// timekeeper become available again, would always query it at the same moment.
fn pause(interval: Duration, failures: u32, random: u8) -> Duration {
    let due = match failures.checked_sub(1) {
        None => interval,
        Some(doublings) => {
            let longest = LONGEST_PAUSE.max(interval);
            let grown = 2_u32.checked_pow(doublings);
            grown.map_or(longest, |times| {
                FIRST_PAUSE.saturating_mul(times).min(longest)
            })
        }
    };
    due * 4 / 5 + due * u32::from(random) * 2 / (5 * u32::from(u8::MAX))
}

fn random() -> u8 {
    Uuid::new_v4()
        .as_bytes()
        .first()
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(15);

    #[test]
    fn pods_ask_at_different_times_around_the_interval() {
        assert_eq!(pause(INTERVAL, 0, 0), Duration::from_secs(12));
        assert_eq!(pause(INTERVAL, 0, u8::MAX), Duration::from_secs(18));
    }

    #[test]
    fn a_timekeeper_that_is_away_is_asked_soon_and_then_less_and_less_often() {
        let millis = |failures| pause(INTERVAL, failures, 0).as_millis();
        let paused = [1, 2, 3, 7, 40, u32::MAX].map(millis);
        assert_eq!(paused, [800, 1600, 3200, 48_000, 48_000, 48_000]);
        let rare = Duration::from_hours(1);
        assert_eq!(pause(rare, u32::MAX, u8::MAX), rare * 6 / 5);
    }
}
