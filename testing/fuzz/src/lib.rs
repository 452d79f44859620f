//! Fuzz targets: one for every parser of outside input, with the properties of what it accepts.
//!
//! A target is a function over bytes. `tests/fuzz.rs` lets libFuzzer search for inputs that break one
//! (`cargo xtask fuzz`); `tests/replay.rs` runs the kept inputs as ordinary tests. `corpus/TARGET` holds
//! inputs to begin with, `regressions/TARGET` those that once broke something.
//!
//! Certificates are not among the targets: they are parsed by rustls, not by us. Nor is the hardware file
//! of the fake driver, which only tests read.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a broken promise must stop the fuzzer"
)]

mod oracle;
mod targets;

/// What a parser made of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Accepted,
    Refused,
}

/// One parser and what it promises.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Panics if the parser breaks a promise.
    pub check: fn(&[u8]) -> Verdict,
}

pub const TARGETS: &[Target] = &[
    target("quantity", targets::quantity::check),
    target("request", targets::request::check),
    target("record", targets::record::check),
    target("inventory", targets::inventory::check),
    target("held", targets::held::check),
    target("pod", targets::pod::check),
    target("admission", targets::admission::check),
    target("node", targets::node::check),
    target("filter", targets::extender::filter),
    target("prioritize", targets::extender::prioritize),
    target("bind", targets::bind::check),
    target("preempt", targets::preempt::check),
    target("claim", targets::claim::check),
    target("checkpoint", targets::checkpoint::check),
    target("podresources", targets::podresources::check),
    target("driver-spec", targets::driver_spec::check),
    target("slot", targets::slot::check),
    target("trace", targets::trace::check),
    target("budget", targets::budget::check),
    target("grant", targets::grant::check),
    target("explain", targets::explain::check),
    target("devices", targets::devices::check),
    target("lease", targets::lease::check),
    target("manifest", targets::manifest::check),
    target("certificate", targets::certificate::check),
    target("standing", targets::standing::check),
    target("story", targets::story::check),
    target("search", targets::search::check),
];

const fn target(name: &'static str, check: fn(&[u8]) -> Verdict) -> Target {
    Target { name, check }
}

impl Target {
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
