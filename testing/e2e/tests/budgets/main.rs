//! Budgets on a real cluster: pods run, are charged to the second, and yield when their budget is exhausted. The test
//! sets the timekeeper's clock. Run by `cargo xtask e2e`.

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

use e2e::budget_cluster::BudgetCluster;

/// One cluster for all tests. Each test has its own namespaces, budgets and ledger, and leaves the cards free.
static SHARED: LazyLock<BudgetCluster> = LazyLock::new(|| BudgetCluster::start(&[8192, 8192]));

const DAY: i64 = 86_400;
