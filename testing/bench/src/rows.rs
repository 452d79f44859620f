//! The figures, one file for each kind. To add one: write a function in a file here and name it in
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

impl Bench {
    const fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&mut Lab) -> Result<Vec<Row>>,
    ) -> Self {
        Self { name, about, run }
    }
}

pub(crate) const ALL: &[Bench] = &[
    Bench::new(
        "filter",
        "filter of 5,000 and 500 names, for pods that fit and for one that does not, beside its floor",
        filter::run,
    ),
    Bench::new(
        "filter during binds",
        "filter of 5,000 names alone and while 8 binds are in flight, in turns",
        filter::run_during_binds,
    ),
    Bench::new(
        "filter with hostile pods",
        "filter of 5,000 names for pods of 32 containers with shares of different size, beside ordinary pods",
        hostile::run,
    ),
    Bench::new(
        "prioritize",
        "prioritize of 5,000 and 500 names, beside its floor",
        prioritize::run,
    ),
    Bench::new(
        "binds",
        "8 binds in flight through the extender and as bare POSTs, in turns",
        bind::run,
    ),
    Bench::new(
        "start and memory",
        "starts of the extender and bare lists of the same objects, in turns; then its memory",
        start::run,
    ),
    Bench::new(
        "admission",
        "the webhook's answers over TLS with 5,000 namespaces and 400 budgets, beside its floor",
        admission::run,
    ),
    Bench::new(
        "charges",
        "charges/s through the ledger on SQLite and PostgreSQL, and bare inserts of the same rows, in turns",
        charges::run,
    ),
    Bench::new(
        "dashboard",
        "the page at 5,000 nodes in Chromium: first sight, search, scrolling and live changes",
        dashboard::run,
    ),
    Bench::new(
        "plugins",
        "kubectl gpushare cards, why and fit, and kubectl inspect gpushare, each in turns with bare lists",
        plugins::run,
    ),
    Bench::new(
        "instructions",
        "instructions of the pure decision on 5,000 nodes (crates/packing/benches), by valgrind",
        instructions::run,
    ),
    Bench::new(
        "sandbox",
        "10,000 pods on the 1,000 simulated nodes of a sandbox, and its dashboard",
        sandbox::run,
    ),
    Bench::new(
        "end to end",
        "pods/s on a real kube-scheduler with 1,000 and 5,000 nodes, with our extender and with none",
        scheduler::run,
    ),
];
