//! The plugins as a user calls them.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers of tests are tests too and stop at the first surprise"
)]

mod budget;
mod cards;
mod cluster;
mod command_line;
mod commands;
mod completion;
mod doctor;
mod errors;
mod fit;
mod from_cluster;
mod inspect;
mod json;
mod reference;
mod said;
mod simulate;
mod why;
mod why_table;
