//! Waiting for a condition, with a deadline that only a broken agent meets.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, sleep};

const DEADLINE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Tries until it answers, and fails with what it said last.
pub(crate) async fn until<T, E: Debug>(
    what: &str,
    mut condition: impl FnMut() -> Result<T, E>,
) -> T {
    until_async(what, async || condition()).await
}

/// As [`until`], for a condition that has to ask somebody.
pub(crate) async fn until_async<T, E: Debug>(
    what: &str,
    mut condition: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        match condition().await {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < end, "waited for {what}; last: {error:?}"),
        }
        sleep(PAUSE).await;
    }
}

/// Waits until the condition holds.
pub(crate) async fn holds(what: &str, mut condition: impl FnMut() -> bool) {
    until(what, || condition().then_some(()).ok_or("not yet")).await;
}
