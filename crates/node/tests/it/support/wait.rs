//! Waiting for a condition, with a deadline that only a broken agent reaches.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, sleep};

const DEADLINE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Tries until the condition returns a value; at the deadline, panics with its last error.
pub(crate) async fn until<T, E: Debug>(
    what: &str,
    mut condition: impl FnMut() -> Result<T, E>,
) -> T {
    until_async(what, async || condition()).await
}

/// Like [`until`], for an async condition.
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
