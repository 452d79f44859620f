//! Waits for conditions, never for fixed times.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

use crate::interrupt;

/// Long enough for a loaded machine; reaching it is a failure, not a measurement.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// Asks until there is an answer. The panic at the deadline names what was awaited and the last refusal.
pub fn until<T, E: Debug>(what: &str, mut ask: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        interrupt::check();
        match ask() {
            Ok(answer) => return answer,
            Err(refusal) if Instant::now() > deadline => {
                panic!("gave up waiting for {what}: {refusal:?}")
            }
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}
