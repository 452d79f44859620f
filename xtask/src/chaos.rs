//! `cargo xtask chaos`: a campaign against the books on a real cluster, by seeds that can be repeated.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use gpushare_rig::{Binaries, host, sweep};

use crate::interrupt;
use crate::products::{Needs, Products};
use crate::steps::{Steps, Tests};

/// Attack a real cluster by a seed, and check the books, what runs and what is charged
///
/// A proxy delays, cuts, doubles and reorders what our parts send to the API server (binds come up to 90 seconds late); parts are killed
/// and frozen, the cluster's own programs restart, the Node is registered again, the timekeeper's clock jumps (no other part's does),
/// and tenants delete by force and edit whatever they may edit.
/// After every 30 seconds of that: books = records = CDI files = containers; no card past its size at any moment; at the
/// end every second is charged and nothing is left. A seed always injects the same. Each seed has a cluster of its own and takes two to
/// three times its minutes. Ctrl-C takes the cluster down; a second one leaves at once. Needs root and Go, as `cargo xtask e2e` does.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many seeds, counted up from the first
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Minutes of injections for each seed
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Where each cluster's logs, the plan and what was seen are kept
    #[arg(long, value_name = "DIR", default_value = "target/chaos-logs")]
    keep_logs: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    host::check()?;
    let logs = std::path::absolute(&arguments.keep_logs)
        .with_context(|| format!("no path: {}", arguments.keep_logs.display()))?;
    let mut steps = Steps::default();
    steps.run("remains of killed clusters", |_| sweep());
    let binaries = steps.run("cluster programs", |_| Binaries::ensure());
    let products = steps.run("build", |_| Products::build());
    if let (Some(_), Some(products)) = (binaries, products) {
        let campaign = Campaign {
            seed: arguments.seed,
            seeds: arguments.seeds,
            minutes: arguments.minutes,
        };
        steps.run("chaos", |tests| campaign.run(tests, &products, &logs));
        println!("logs: {}", logs.display());
    }
    steps.finish(Some("chaos"))
}

/// Some seeds for some minutes each.
pub(crate) struct Campaign {
    pub(crate) seed: u64,
    pub(crate) seeds: u64,
    pub(crate) minutes: u64,
}

impl Campaign {
    /// Runs the test program with these seeds, and shows its output as it happens.
    fn run(&self, tests: &mut Tests, products: &Products, logs: &Path) -> Result<()> {
        let mut program = self.command(products, logs)?;
        interrupt::left_to(|| tests.run(&mut program))
    }

    /// The test program, told which seeds to run.
    pub(crate) fn command(&self, products: &Products, logs: &Path) -> Result<Command> {
        let start = |program: &Path| Command::new(program);
        let programs = products.tests_of("testing/e2e", Needs::RealParts, start)?;
        let mut program = programs
            .into_iter()
            .find(is_campaign)
            .context("the build made no test program of chaos")?;
        program
            .arg("--nocapture")
            .env("GPUSHARE_RIG_LOGS", logs)
            .env("GPUSHARE_CHAOS_SEED", self.seed.to_string())
            .env("GPUSHARE_CHAOS_SEEDS", self.seeds.to_string())
            .env("GPUSHARE_CHAOS_MINUTES", self.minutes.to_string());
        Ok(program)
    }
}

/// Cargo appends a hash to the names of test programs.
fn is_campaign(program: &Command) -> bool {
    let file = Path::new(program.get_program()).file_name();
    file.is_some_and(|name| name.to_string_lossy().starts_with("chaos-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_campaign_is_found_among_the_test_programs() {
        assert!(is_campaign(&Command::new(
            "/out/deps/chaos-0123456789abcdef"
        )));
        assert!(!is_campaign(&Command::new(
            "/out/deps/scenarios-0123456789abcdef"
        )));
    }
}
