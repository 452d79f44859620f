//! Hashing of node names, of which one request brings thousands.

/// For maps and sets of node names: three times as fast as the standard hasher, which takes longer for a name than
/// everything else that is done with it.
///
/// It is seeded, but not made for keys that an attacker chooses. The cluster's administrators choose names of nodes.
pub(super) type ByName = foldhash::fast::RandomState;
