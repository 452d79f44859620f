//! `cargo xtask soak`: races, crashes and leader changes, for longer than CI has time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use gpushare_rig::{Binaries, host, sweep};

use crate::chaos::Campaign;
use crate::e2e::{LONGEST, Suite};
use crate::products::{Needs, Products};
use crate::steps::{Steps, name_of};
use crate::{fuzz, interrupt};

/// The packages with property tests.
const PROPERTIES: [&str; 4] = [
    "crates/core",
    "crates/packing",
    "crates/books",
    "crates/timekeeper",
];

/// Explore orders of events, run property tests, fuzzing, races, crashes, failovers and chaos at full length
///
/// The same tests as in `cargo xtask test` and `cargo xtask e2e`, with more orders, cases, seconds, rounds,
/// kills and seeds; each prints what it went through. Run it before you call anything
/// about bookings or identity done. Parts run side by side; on two idle cores all of them take about two hours. A number of 0 leaves a
/// part out.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Orders of events to explore for each way in which extenders live and end
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    orders: u32,
    /// Cases of each property that does not set its own number
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    cases: u32,
    /// Seconds of fuzzing for each parser
    #[arg(long, value_name = "N", default_value_t = 30)]
    seconds: u32,
    /// Rounds of a hundred equal pods
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: u32,
    /// Kills of the extender at each kind of moment; sixty pods allow for 25
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(0..=25))]
    kills: u32,
    /// How often the leader of two extenders is killed, ended and frozen under load
    #[arg(long, value_name = "N", default_value_t = 5)]
    failovers: u32,
    /// Seeds of the campaign of `cargo xtask chaos`, a minute of injections each; 24 take about an hour
    #[arg(long, value_name = "N", default_value_t = 24)]
    chaos: u64,
    /// Where the clusters' logs are kept: a failure that takes hours to come must not be lost
    #[arg(long, value_name = "DIR", default_value = "target/soak-logs")]
    keep_logs: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    host::check()?;
    // Absolute, because the tests run in other directories.
    let logs = std::path::absolute(&arguments.keep_logs)
        .with_context(|| format!("no path: {}", arguments.keep_logs.display()))?;
    let mut steps = Steps::default();
    if arguments.scenarios() {
        println!("the clusters' logs go to {}", logs.display());
        steps.run("remains of killed clusters", |_| sweep());
        steps.run("cluster programs", |_| Binaries::ensure());
    }
    if let Some(products) = steps.run("build", |_| Products::build()) {
        let parts = arguments.parts(products, logs)?;
        steps.run("orders, properties and clusters", |tests| {
            interrupt::left_to(|| tests.run_side_by_side(parts))
        });
    }
    if arguments.seconds > 0 {
        steps.run("fuzzing", |_| fuzz::search_all(arguments.seconds));
    }
    steps.finish(None)
}

impl Arguments {
    fn scenarios(&self) -> bool {
        self.chaos > 0 || self.rounds + self.kills + self.failovers > 0
    }

    /// What runs side by side, with those first that take the longest: clusters mostly wait while the others compute.
    fn parts(&self, products: Products, logs: PathBuf) -> Result<Vec<Command>> {
        let mut parts = Vec::new();
        if self.chaos > 0 {
            let campaign = Campaign {
                seed: first_seed(),
                seeds: self.chaos,
                minutes: 1,
            };
            parts.push(campaign.command(&products, &logs)?);
        }
        if self.orders > 0 {
            parts.extend(self.orders_of_events(&products)?);
        }
        if self.cases > 0 {
            for package in PROPERTIES {
                parts.extend(self.properties(&products, package)?);
            }
        }
        let mut suite = Suite {
            filters: Vec::new(),
            env: vec![
                ("GPUSHARE_SOAK_ROUNDS", self.rounds.to_string()),
                ("GPUSHARE_SOAK_KILLS", self.kills.to_string()),
            ],
            show_output: true,
            logs: Some(logs),
            products,
        };
        for (filter, times) in [
            ("race::", self.rounds.min(1)),
            ("crash::", self.kills.min(1)),
            ("failover::", self.failovers),
        ] {
            suite.filters = vec![filter];
            for _ in 0..times {
                let mut commands = suite.commands("testing/e2e")?;
                commands.retain(|command| name_of(command).ends_with(LONGEST));
                parts.extend(commands);
            }
        }
        Ok(parts)
    }

    fn orders_of_events(&self, products: &Products) -> Result<Vec<Command>> {
        let start = |program: &Path| {
            let mut command = Command::new(program);
            command.args(["explore::books", "--show-output"]);
            command.env("GPUSHARE_SOAK_ORDERS", self.orders.to_string());
            command
        };
        products.tests_of("crates/books", Needs::Nothing, start)
    }

    /// The programs with property tests: the unit tests, and `tests/it`.
    fn properties(&self, products: &Products, package: &str) -> Result<Vec<Command>> {
        let start = |program: &Path| {
            let mut command = Command::new(program);
            command.args(["--skip", "explore::"]);
            command.env("PROPTEST_CASES", self.cases.to_string());
            command
        };
        let mut commands = products.tests_of(package, Needs::Nothing, start)?;
        commands.retain(|command| {
            let name = name_of(command);
            name.ends_with(" it") || name.contains(" gpushare_")
        });
        Ok(commands)
    }
}

/// Differs in each run. The printed seed repeats what a run found.
fn first_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |since| since.as_secs())
}
