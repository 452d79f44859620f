//! The documents are true: generated pages are current, manifests run, commands, flags, metrics and links exist.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop at the first surprise, and so may what it is made of"
)]

mod agreement;
mod current;
mod deploy;
mod documents;
mod links;
mod manifests;
mod named;
