//! Limits how many wrong tokens are checked. Tokens cannot be guessed, but each attempt costs the API server work.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Wrong tokens are counted for this long.
pub(super) const COUNTED_FOR: Duration = Duration::from_secs(10);
/// After this many within that time, unknown tokens are not checked until it is over.
const MOST_WRONG: u32 = 40;

/// All clients without a session or a remembered answer are counted together: behind an ingress they all have the same
/// address.
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<Option<Counted>>);

#[derive(Debug)]
struct Counted {
    since: Instant,
    wrong: u32,
}

impl Strangers {
    /// Whether another token may be checked.
    pub(super) fn may_try(&self, now: Instant) -> bool {
        let counted = self.0.lock();
        let recent = counted.as_ref().filter(|counted| counted.holds(now));
        recent.is_none_or(|counted| counted.wrong < MOST_WRONG)
    }

    pub(super) fn was_wrong(&self, now: Instant) {
        let mut counted = self.0.lock();
        match counted.as_mut().filter(|counted| counted.holds(now)) {
            Some(counted) => counted.wrong = counted.wrong.saturating_add(1),
            None => {
                *counted = Some(Counted {
                    since: now,
                    wrong: 1,
                });
            }
        }
    }
}

impl Counted {
    fn holds(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < COUNTED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_wrong_tokens_close_the_door_for_a_while() {
        let strangers = Strangers::default();
        let now = Instant::now();
        for _ in 0..MOST_WRONG {
            assert!(strangers.may_try(now));
            strangers.was_wrong(now);
        }
        assert!(!strangers.may_try(now));
        assert!(!strangers.may_try(now + COUNTED_FOR / 2));
        assert!(strangers.may_try(now + COUNTED_FOR));
    }

    #[test]
    fn a_wrong_token_now_and_then_closes_nothing() {
        let strangers = Strangers::default();
        let began = Instant::now();
        for round in 0..3 * MOST_WRONG {
            let now = began + COUNTED_FOR / 8 * round;
            assert!(strangers.may_try(now));
            strangers.was_wrong(now);
        }
    }
}
