//! Hashing of node names, of which one request brings thousands.
//!
//! The standard hasher takes longer for a name than everything else that is done with it. This one mixes
//! eight bytes at a time into a random seed chosen at the start. It is for names that the cluster's
//! administrators choose, not for untrusted text.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// Odd and without a pattern: inputs that differ in any bit differ in the upper bits of the product.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(FACTOR));

/// For maps and sets of node names.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByName(u64);

impl Default for ByName {
    fn default() -> Self {
        Self(*SEED)
    }
}

impl BuildHasher for ByName {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NameHasher(u64);

impl NameHasher {
    fn mix(&mut self, word: u64) {
        let product = (self.0 ^ word).wrapping_mul(FACTOR);
        self.0 = product ^ (product >> 32);
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        // At most seven bytes remain; the eighth byte holds the remainder's length.
        let mut last = [0, 0, 0, 0, 0, 0, 0, u8::try_from(rest.len()).unwrap_or(0)];
        for (into, byte) in last.iter_mut().zip(rest) {
            *into = *byte;
        }
        self.mix(u64::from_le_bytes(last));
    }

    /// `str` writes this byte after its text to separate consecutive strings; for a single name it adds
    /// nothing.
    fn write_u8(&mut self, _end: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_that_differ_in_a_digit_are_told_apart_in_all_bits() {
        let by_name = ByName::default();
        let names = (0..10_000).map(|number| format!("gpu-{number:05}.pool-a.example"));
        let hashes: Vec<u64> = names.map(|name| by_name.hash_one(name.as_str())).collect();
        for part in [|hash: u64| hash >> 40, |hash: u64| hash & 0xff_ffff] {
            let distinct: HashSet<u64> = hashes.iter().map(|hash| part(*hash)).collect();
            assert!(distinct.len() > 9_900, "{}", distinct.len());
        }
    }

    #[test]
    fn a_name_has_one_hash_wherever_it_stands() {
        let hasher = ByName::default();
        let (kept, asked) = (gpushare_core::NodeName::new("node-1"), "node-1");
        assert_eq!(hasher.hash_one(&kept), ByName::default().hash_one(asked));
        assert_ne!(hasher.hash_one("node-1"), hasher.hash_one("node-12"));
        assert_ne!(hasher.hash_one("node"), hasher.hash_one("node\0"));
    }
}
