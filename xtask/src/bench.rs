//! `cargo xtask bench`: builds the measured programs with optimisation and runs the measurements.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::cargo::{cargo, succeed, workspace};
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

#[derive(Deserialize)]
struct Metadata {
    target_directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut build = cargo();
    build.args([
        "build",
        "--release",
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
    let program = target_directory()?.join("release/bench");
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

fn target_directory() -> Result<PathBuf> {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--no-deps"])
        .output()
        .context("cannot start cargo")?;
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    Ok(metadata.target_directory)
}
