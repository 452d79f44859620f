//! `cargo xtask bench`: builds the measured programs with optimisation and runs the measurements.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, succeed, target_directory, workspace};
use crate::valgrind;

/// Measure how fast gpushare is, beside the least that the same work costs
///
/// Prints a table of name, value, floor, ratio, limit and verdict, and fails when a limit is missed.
/// Everything is built with optimisation first (minutes the first time); the measurements themselves
/// take less than 10 minutes. The rows on a real kube-scheduler need root and the programs that
/// `cargo xtask e2e` builds. docs/benchmarks.md says what each row means.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to measure (part of a name), and options such as `-o json` and `--list`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut build = cargo();
    build.args([
        "build",
        "--profile",
        "dist",
        "--package",
        "bench",
        "--package",
        "gpushare-control",
        "--package",
        "gpushare-sandbox",
        "--package",
        "kubectl-gpushare",
    ]);
    succeed(&mut build)?;
    let mut build = cargo();
    build.args([
        "bench",
        "--no-run",
        "--package",
        "gpushare-packing",
        "--bench",
        "instructions",
    ]);
    succeed(&mut build)?;
    let program = target_directory()?.join("dist/bench");
    let mut measure = Command::new(&program);
    measure.args(&arguments.arguments).current_dir(workspace());
    valgrind::offer(&mut measure)?;
    let status = measure
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("not everything was measured and within its limit");
    }
    Ok(())
}
