//! How fast simulated time passes. Everything that only simulates taking time uses this.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace(u32);

impl Pace {
    pub(crate) fn new(speed: u32) -> Self {
        Self(speed.max(1))
    }

    pub(crate) fn speed(self) -> u32 {
        self.0
    }

    /// The real time in which this much simulated time passes.
    pub(crate) fn of(self, simulated: Duration) -> Duration {
        simulated / self.0
    }
}
