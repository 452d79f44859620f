//! `cargo xtask soak`: the races and crashes of the scenarios, for longer than CI has time.

use anyhow::Result;
use gpushare_rig::{Binaries, host};

use crate::cargo::Products;
use crate::e2e::{FEATURES, Suite};
use crate::steps::Steps;

/// Run the race and crash scenarios at full length
///
/// The same tests as in `cargo xtask e2e`, with more rounds and more kills. Run it before you call
/// anything about bookings or identity done.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rounds of a hundred equal pods
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: u32,
    /// Kills of the extender at each kind of moment; sixty pods allow for 25
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=25))]
    kills: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    host::check()?;
    let mut steps = Steps::default();
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
