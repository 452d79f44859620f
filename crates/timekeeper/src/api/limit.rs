//! The rate limit of each caller: a bucket of requests that refills over time.
//!
//! Callers are counted by their identity, never by what they send, and only a limited number is remembered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How many requests a full bucket allows at once.
const BURST: u32 = 30;
/// An empty bucket then allows one request in this time.
const EACH: Duration = Duration::from_millis(200);
/// Beyond this many callers, the one that asked longest ago is forgotten, which only gives it a full bucket again.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Limiter(Mutex<BTreeMap<String, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    /// Up to when the bucket has been refilled.
    filled: Instant,
}

impl Limiter {
    /// Takes one request from the caller's bucket; if it is empty, returns how long to wait.
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
        // The rest of an incomplete step counts for the next one.
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
