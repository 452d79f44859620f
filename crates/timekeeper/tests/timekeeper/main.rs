//! The timekeeper on an API server: what is recorded there is charged, whatever happens to the timekeeper meanwhile.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

mod api;
mod budgets;
mod clocks;
mod damage;
mod enforcement;
mod life;
mod nodes;
mod outages;
mod random;
mod replicas;
mod world;
