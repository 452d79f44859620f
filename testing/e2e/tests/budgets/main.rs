//! Budgets on a real cluster: pods run, are charged to the second, and yield when their budget is used up. The clock of
//! the timekeeper is the test's. Run by `cargo xtask e2e`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

mod enforcement;
mod holes;
mod rejected;
mod sidecar;
mod story;

use std::sync::LazyLock;

use e2e::budgeted::Budgeted;

/// One cluster for all tests; each has namespaces, budgets and a ledger of its own, and leaves the cards free.
static SHARED: LazyLock<Budgeted> = LazyLock::new(|| Budgeted::start(&[8192, 8192]));

const DAY: i64 = 86_400;
