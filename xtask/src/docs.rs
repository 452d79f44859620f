//! `cargo xtask docs`: what is generated from the programs themselves.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::cargo::{cargo, succeed, workspace};

/// Write docs/cli.md and the man pages from the command line's own description
///
/// The man pages go to target/man; docs/cli.md is committed, and a test says when it is out of date.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<()> {
    let plugin = [
        "run",
        "--quiet",
        "--package",
        "kubectl-gpushare",
        "--bin",
        "kubectl-gpushare",
        "--",
        "docs",
    ];
    let output = cargo()
        .args(plugin)
        .arg("markdown")
        .output()
        .context("cannot run the plugin")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let file = workspace().join("docs/cli.md");
    fs::write(&file, output.stdout).with_context(|| format!("cannot write {}", file.display()))?;
    println!("wrote {}", file.display());
    succeed(
        cargo()
            .args(plugin)
            .arg("man")
            .arg(workspace().join("target/man")),
    )
}
