//! What tests of several crates share. A helper panics at the first unexpected result and reports what it has seen.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "everything here serves tests, which stop at the first surprise"
)]

#[cfg(feature = "cluster")]
pub mod cluster;
pub mod http;
pub mod model;
pub mod process;
pub mod wait;

pub use wait::{PATIENCE, until, until_blocking};

/// Asserts that a text contains a part, and shows the whole text if it does not.
#[track_caller]
pub fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in: {text}");
}
