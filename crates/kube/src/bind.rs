//! The bind: one atomic write, and what its answer means.
