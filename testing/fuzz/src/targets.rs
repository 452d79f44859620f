//! The targets, one module for each format, and their common code.

pub(crate) mod admission;
mod api;
pub(crate) mod bind;
pub(crate) mod budget;
pub(crate) mod certificate;
pub(crate) mod checkpoint;
pub(crate) mod claim;
pub(crate) mod devices;
pub(crate) mod driver_spec;
pub(crate) mod explain;
pub(crate) mod extender;
pub(crate) mod grant;
pub(crate) mod held;
pub(crate) mod inventory;
pub(crate) mod lease;
pub(crate) mod manifest;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod podresources;
pub(crate) mod preempt;
pub(crate) mod quantity;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod search;
pub(crate) mod slot;
pub(crate) mod standing;
pub(crate) mod story;
pub(crate) mod trace;
mod world;

use crate::Verdict;

impl Verdict {
    fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() {
            Self::Accepted
        } else {
            Self::Refused
        }
    }
}

/// Runs the check on text. Bytes that are not text are refused before any parser of ours sees them.
fn on_text(data: &[u8], check: impl FnOnce(&str) -> Verdict) -> Verdict {
    std::str::from_utf8(data).map_or(Verdict::Refused, check)
}
