//! The extender against an API server, embedded or real: what it writes, and how it reads that again.

#![expect(clippy::indexing_slicing, reason = "tests stop at the first surprise")]

mod books;
mod leases;
mod running;
