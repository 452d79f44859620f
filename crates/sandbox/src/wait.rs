//! Waits for something to become true, with a timeout.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::SandboxError;

const PAUSE: Duration = Duration::from_millis(50);

/// Calls `ask` until it succeeds. After the timeout, the error contains the last failure.
pub(crate) async fn until<T>(
    what: &str,
    patience: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, SandboxError> {
    let end = Instant::now() + patience;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(seen) if Instant::now() >= end => {
                return Err(SandboxError::Late {
                    what: what.to_owned(),
                    seconds: patience.as_secs(),
                    seen,
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}
