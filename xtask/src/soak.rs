//! `cargo xtask soak`: races, crashes and leader changes, for longer than CI has time.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use gpushare_rig::{Binaries, host};

use crate::cargo::cargo;
use crate::chaos::Campaign;
use crate::e2e::Suite;
use crate::fuzz;
use crate::products::Products;
use crate::steps::Steps;

/// Explore orders of events, run property tests, fuzzing, races, crashes, failovers and chaos at full length
///
/// The same tests as in `cargo xtask test` and `cargo xtask e2e`, with more orders, cases, seconds, rounds,
/// kills and seeds; each prints what it went through. Run it before you call anything
/// about bookings or identity done. It takes two and a half hours on two idle cores; a number of 0 leaves a
/// part out, so that it can be run in parts.
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
    if arguments.orders > 0 {
        steps.run("orders of events", |tests| {
            let mut explore = cargo();
            explore.args(["test", "--workspace", "--lib", "explore::books"]);
            explore.args(["--", "--show-output"]);
            explore.env("GPUSHARE_SOAK_ORDERS", arguments.orders.to_string());
            tests.run(&mut explore)
        });
    }
    if arguments.cases > 0 {
        println!("{} cases of each property", arguments.cases);
        steps.run("properties", |tests| {
            let mut properties = cargo();
            properties.args(["test", "--lib", "--test", "it"]);
            properties.args([
                "-p",
                "gpushare-core",
                "-p",
                "gpushare-packing",
                "-p",
                "gpushare-books",
                "-p",
                "gpushare-timekeeper",
            ]);
            properties.args(["--", "--skip", "explore::"]);
            properties.env("PROPTEST_CASES", arguments.cases.to_string());
            tests.run(&mut properties)
        });
    }
    if arguments.seconds > 0 {
        steps.run("fuzzing", |_| fuzz::search_all(arguments.seconds));
    }
    if arguments.scenarios() {
        println!("the clusters' logs go to {}", logs.display());
        on_clusters(arguments, logs, &mut steps);
    }
    steps.finish(None)
}

impl Arguments {
    fn scenarios(&self) -> bool {
        self.chaos > 0 || self.rounds + self.kills + self.failovers > 0
    }
}

fn on_clusters(arguments: &Arguments, logs: PathBuf, steps: &mut Steps) {
    let binaries = steps.run("cluster programs", |_| Binaries::ensure());
    let products = steps.run("build", |_| Products::build());
    let (Some(_), Some(products)) = (binaries, products) else {
        return;
    };
    let mut suite = Suite {
        filters: Vec::new(),
        env: vec![
            ("GPUSHARE_SOAK_ROUNDS", arguments.rounds.to_string()),
            ("GPUSHARE_SOAK_KILLS", arguments.kills.to_string()),
        ],
        show_output: true,
        threads: 1,
        logs: Some(logs),
        products,
    };
    let parts = [
        ("races", "race::", arguments.rounds.min(1)),
        ("crashes", "crash::", arguments.kills.min(1)),
        ("failovers", "failover::", arguments.failovers),
    ];
    if let (seeds @ 1.., Some(logs)) = (arguments.chaos, &suite.logs) {
        let campaign = Campaign {
            seed: first_seed(),
            seeds,
            minutes: 1,
        };
        steps.run("chaos", |tests| campaign.run(tests, &suite.products, logs));
    }
    for (name, filter, times) in parts {
        suite.filters = vec![filter];
        for time in 1..=times {
            let name = match times {
                1 => name.to_owned(),
                _ => format!("{name} {time} of {times}"),
            };
            steps.run(&name, |tests| suite.run(tests, "testing/e2e"));
        }
    }
}

/// Differs in each run. The printed seed repeats what a run found.
fn first_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |since| since.as_secs())
}
