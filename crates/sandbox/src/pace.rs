//! How fast simulated time goes. Everything that only pretends to take time asks here.

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

    /// How long to wait for so much simulated time to pass.
    pub(crate) fn of(self, simulated: Duration) -> Duration {
        simulated / self.0
    }
}
