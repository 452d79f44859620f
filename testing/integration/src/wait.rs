//! Waiting for something to become true.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// Long enough for a slow machine; reached only when a test fails.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// The pause between two looks, for conditions that cannot be watched.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks again and again until `condition` gives a value. An error of the condition ends the wait.
pub async fn wait_for<T>(
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    loop {
        if let Some(value) = condition().await? {
            return Ok(value);
        }
        if Instant::now() >= end {
            bail!("{what}: still not so after {deadline:?}");
        }
        sleep(PAUSE).await;
    }
}
