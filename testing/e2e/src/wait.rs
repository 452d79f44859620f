//! Waits for conditions, never for fixed times.

use std::fmt::Debug;
use std::time::Duration;

use gpushare_rig::Rig;
use gpushare_testkit::http;
use gpushare_testkit::wait::until_blocking_within;

use crate::interrupt;

/// Long enough for a loaded machine; reaching it is a failure, not a measurement.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// Calls `ask` until it succeeds. The panic at the deadline names what was awaited and the last error.
pub fn until<T, E: Debug>(what: &str, mut ask: impl FnMut() -> Result<T, E>) -> T {
    until_blocking_within(PATIENCE, what, || {
        interrupt::check();
        ask()
    })
}

/// Calls `look` until its result is `right`, and returns it. The panic at the deadline names the last result.
pub fn until_seen<T: Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    right: impl Fn(&T) -> bool,
) -> T {
    until(what, || {
        let seen = look();
        if right(&seen) { Ok(seen) } else { Err(seen) }
    })
}

/// Waits until a program in the rig says at this address that it is ready.
pub fn until_ready(rig: &Rig, what: &str, address: &str) {
    until(&format!("{what} to be ready"), || {
        match rig.run(|| http::get(address, "/readyz")) {
            Ok(answer) if answer.status == 200 => Ok(()),
            other => Err(other),
        }
    });
}
