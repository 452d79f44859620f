//! The API of budgets: the router in process, a ledger in a file, and the embedded API server that judges callers.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

mod answers;
mod callers;
mod described;
mod grants;
mod schema;
mod world;
