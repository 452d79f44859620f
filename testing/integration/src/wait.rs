//! Waiting for something to become true.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// Long enough for a slow machine; reached only when a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// The pause between two looks, for conditions that cannot be watched.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks again and again until the condition holds. An error of the condition ends the wait.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    while !condition().await? {
        if Instant::now() >= end {
            bail!("{what}: still not so after {DEADLINE:?}");
        }
        sleep(PAUSE).await;
    }
    Ok(())
}
