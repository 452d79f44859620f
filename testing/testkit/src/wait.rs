//! Waiting for a condition, with a deadline that only a broken program reaches.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; reaching it is a failure, not a measurement.
pub const PATIENCE: Duration = Duration::from_mins(2);

const PAUSE: Duration = Duration::from_millis(20);

/// What one look at the condition shows: what was waited for, or why not yet.
pub trait Look {
    type Found;

    fn found(self) -> Result<Self::Found, String>;
}

impl Look for bool {
    type Found = ();

    fn found(self) -> Result<(), String> {
        self.then_some(()).found()
    }
}

impl<T> Look for Option<T> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self.ok_or_else(|| "it does not hold".to_owned())
    }
}

impl<T, E: Debug> Look for Result<T, E> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:?}"))
    }
}

/// Looks until the condition holds. At the deadline, panics with what was waited for and what was seen last.
pub async fn until<L: Look>(what: &str, look: impl AsyncFnMut() -> L) -> L::Found {
    until_within(PATIENCE, what, look).await
}

async fn until_within<L: Look>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> L,
) -> L::Found {
    let mut seen = "nothing".to_owned();
    let looking = async {
        loop {
            match look().await.found() {
                Ok(found) => return found,
                Err(last) => seen = last,
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let found = tokio::time::timeout(patience, looking).await;
    found.unwrap_or_else(|_| late(what, &seen))
}

/// Like [`until`], for tests without a runtime.
pub fn until_blocking<L: Look>(what: &str, look: impl FnMut() -> L) -> L::Found {
    until_blocking_within(PATIENCE, what, look)
}

/// Like [`until_blocking`], for what takes longer than usual.
pub fn until_blocking_within<L: Look>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> L,
) -> L::Found {
    let end = Instant::now() + patience;
    loop {
        match look().found() {
            Ok(found) => return found,
            Err(seen) if Instant::now() > end => late(what, &seen),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn late(what: &str, seen: &str) -> ! {
    panic!("waited in vain: {what}; seen last: {seen}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_holds_later_is_returned() {
        let mut looks = 0;
        let third = until("the third look", async || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(third.await, 3);
        until_blocking("a moment", || true);
    }

    #[tokio::test]
    #[should_panic = "waited in vain: rain; seen last: \"sunshine\""]
    async fn the_panic_says_what_was_waited_for_and_what_was_seen_last() {
        until_within(PAUSE, "rain", async || Err::<(), _>("sunshine")).await;
    }

    #[tokio::test]
    #[should_panic = "waited in vain: an end; seen last: nothing"]
    async fn a_look_that_does_not_end_is_given_up() {
        until_within(PAUSE, "an end", std::future::pending::<bool>).await;
    }

    #[test]
    #[should_panic = "waited in vain: rain; seen last: it does not hold"]
    fn a_thread_waits_no_longer_than_its_patience() {
        until_blocking_within(Duration::ZERO, "rain", || None::<()>);
    }
}
