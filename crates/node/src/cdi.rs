//! CDI: how a container gets what was decided for it. The runtime resolves the slot name that Allocate
//! returned to the spec file that PreStartContainer wrote.
//!
//! A slot name is used for one allocation and never again: runtimes cache spec files, so with a name
//! used twice a container could get the cards of an earlier one.

pub mod directory;
pub mod nvidia;
pub mod spec;

use std::fmt;

use gpushare_core::PodUid;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::plugin::devices::hex;

pub use directory::SlotFiles;
pub use spec::{ContainerEdits, Slot};

/// Vendor and class of our devices. Each has at least two letters: containerd 2.1 crashes on one.
pub const KIND: &str = "gpushare.io/slot";

/// How many letters of the hash are in a name: enough for people to see which slots share ids.
const HASH_LETTERS: usize = 16;

/// The CDI device name of one allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotName(String);

impl SlotName {
    /// A name for these ids that was never used before.
    pub fn fresh(ids: &[String]) -> Self {
        let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let mut hash = hex(&Sha256::digest(sorted.join(",")));
        hash.truncate(HASH_LETTERS);
        Self(format!("{hash}-{}", Uuid::new_v4().simple()))
    }

    /// Parses `gpushare.io/slot=NAME`. The name becomes part of a path, so it is checked strictly.
    pub fn parse_qualified(text: &str) -> Option<Self> {
        let name = text.strip_prefix(KIND)?.strip_prefix('=')?;
        let safe = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let bounded = (1..=128).contains(&name.len()) && !name.starts_with('-');
        (bounded && name.chars().all(safe)).then(|| Self(name.to_owned()))
    }

    /// The form that the device plugin API and runtimes expect.
    pub fn qualified(&self) -> String {
        format!("{KIND}={}", self.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The container that a slot belongs to, and why. Kept in the file for the next run of the agent and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub pod: PodUid,
    /// `namespace/name`, for people.
    pub pod_name: String,
    pub container: String,
    /// The allocation record with which the pod was admitted.
    pub record: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_used_twice_even_for_the_same_ids() {
        let ids = ["b".to_owned(), "a".to_owned()];
        let (one, other) = (SlotName::fresh(&ids), SlotName::fresh(&ids));
        assert_ne!(one, other);
        assert_eq!(one.as_str()[..16], other.as_str()[..16]);
    }

    #[test]
    fn a_qualified_name_reads_back() {
        let name = SlotName::fresh(&["a".to_owned()]);
        assert_eq!(SlotName::parse_qualified(&name.qualified()), Some(name));
    }

    #[test]
    fn names_of_others_and_names_that_are_paths_are_refused() {
        for text in [
            "nvidia.com/gpu=0",
            "gpushare.io/slot=",
            "gpushare.io/slot=../../etc/passwd",
            "gpushare.io/slot=a/b",
            "gpushare.io/slot=-a",
            "gpushare.io/slots=a",
        ] {
            assert_eq!(SlotName::parse_qualified(text), None, "{text}");
        }
    }
}
