//! `cargo xtask soak`: races and crashes, for longer than CI has time.

use anyhow::Result;
use gpushare_rig::{Binaries, host};

use crate::cargo::{Products, cargo};
use crate::e2e::{FEATURES, Suite};
use crate::steps::Steps;

/// Explore orders of events, and run the race and crash scenarios, at full length
///
/// The same tests as in `cargo xtask test` and `cargo xtask e2e`, with more orders, rounds and kills. Run
/// it before you call anything about bookings or identity done.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rounds of a hundred equal pods
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: u32,
    /// Kills of the extender at each kind of moment; sixty pods allow for 25
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=25))]
    kills: u32,
    /// Orders of events to explore for each way in which extenders live and end, chosen anew each time
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    orders: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    host::check()?;
    let mut steps = Steps::default();
    steps.run("orders of events", |tests| {
        let mut explore = cargo();
        explore.args(["test", "--workspace", "--lib", "explore::books"]);
        explore.env("GPUSHARE_SOAK_ORDERS", arguments.orders.to_string());
        tests.run(&mut explore)
    });
    let binaries = steps.run("cluster programs", |_| Binaries::ensure());
    let products = steps.run("build", |_| Products::build(&FEATURES));
    if let (Some(_), Some(products)) = (binaries, products) {
        let suite = Suite {
            filters: vec!["race::", "crash::"],
            env: vec![
                ("GPUSHARE_SOAK_ROUNDS", arguments.rounds.to_string()),
                ("GPUSHARE_SOAK_KILLS", arguments.kills.to_string()),
            ],
            threads: 1,
            logs: None,
            products,
        };
        steps.run("scenarios", |tests| suite.run(tests, "e2e"));
    }
    steps.finish(Some("race or crash"))
}
