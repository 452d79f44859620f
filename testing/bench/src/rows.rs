//! The figures, one file for each kind. To add one: write a `BENCH` in a file here and name it in
//! [`ALL`].

mod admission;
mod bind;
mod charges;
mod dashboard;
mod filter;
mod hostile;
mod instructions;
mod plugins;
mod prioritize;
mod sandbox;
mod scheduler;
mod start;
mod verb;

use anyhow::Result;

use crate::lab::Lab;
use crate::report::Row;

/// Something that is measured, and yields one or more rows.
pub(crate) struct Bench {
    /// The name that the command line's filter is matched against.
    pub(crate) name: &'static str,
    /// What is measured, for the user who waits for it.
    pub(crate) about: &'static str,
    pub(crate) run: fn(&mut Lab) -> Result<Vec<Row>>,
}

pub(crate) const ALL: &[Bench] = &[
    filter::BENCH,
    filter::DURING_BINDS,
    hostile::BENCH,
    prioritize::BENCH,
    bind::BENCH,
    start::BENCH,
    admission::BENCH,
    charges::BENCH,
    dashboard::BENCH,
    plugins::BENCH,
    instructions::BENCH,
    sandbox::BENCH,
    scheduler::BENCH,
];
