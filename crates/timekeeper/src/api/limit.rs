//! How often one caller may ask: a bucket of requests that fills up again with time.
//!
//! Callers are counted by who they are, never by what they send, and no more of them are remembered than fit.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// So many requests at once.
const BURST: u32 = 30;
/// After that one in this time.
const EACH: Duration = Duration::from_millis(200);
/// Whoever asked longest ago is forgotten beyond this, which only gives a full bucket back.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Limiter(Mutex<BTreeMap<String, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    /// Up to when it has been filled.
    filled: Instant,
}

impl Limiter {
    /// Takes one request from the caller's bucket; if there is none, answers how long to wait.
    pub(super) fn take(&self, caller: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.0.lock();
        if !buckets.contains_key(caller) && buckets.len() >= REMEMBERED {
            let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.filled);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                buckets.remove(&oldest);
            }
        }
        let full = Bucket {
            left: BURST,
            filled: now,
        };
        let bucket = buckets.entry(caller.to_owned()).or_insert(full);
        bucket.fill(now);
        match bucket.left.checked_sub(1) {
            Some(left) => {
                bucket.left = left;
                Ok(())
            }
            None => Err(EACH.saturating_sub(now.saturating_duration_since(bucket.filled))),
        }
    }
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.filled).as_millis();
        let more = u32::try_from(since / EACH.as_millis()).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(more).min(BURST);
        // What is left of a step counts for the next one.
        self.filled += EACH.saturating_mul(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(limiter: &Limiter, caller: &str, now: Instant) -> u32 {
        (0..1_000)
            .take_while(|_| limiter.take(caller, now).is_ok())
            .map(|_| 1)
            .sum()
    }

    #[test]
    fn a_caller_has_a_burst_and_then_a_rate() {
        let (limiter, start) = (Limiter::default(), Instant::now());
        assert_eq!(taken(&limiter, "a", start), BURST);
        assert_eq!(limiter.take("a", start), Err(EACH));
        assert_eq!(taken(&limiter, "a", start + EACH * 3 + EACH / 2), 3);
        assert_eq!(taken(&limiter, "a", start + EACH * 4), 1);
        assert_eq!(taken(&limiter, "a", start + EACH * 10_000), BURST);
    }

    #[test]
    fn callers_do_not_take_from_each_other_and_are_not_remembered_without_end() {
        let (limiter, start) = (Limiter::default(), Instant::now());
        assert_eq!(taken(&limiter, "a", start), BURST);
        assert_eq!(taken(&limiter, "b", start), BURST);
        for number in 0..2 * REMEMBERED {
            limiter
                .take(&number.to_string(), start + Duration::from_nanos(1))
                .unwrap();
        }
        assert_eq!(limiter.0.lock().len(), REMEMBERED);
    }
}
