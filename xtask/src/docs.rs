//! `cargo xtask docs`: writes the documents that are generated from the programs themselves.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::cargo::{cargo, succeed, workspace};

/// Write docs/cli.md, docs/reference and the man pages from what the programs say of themselves
///
/// The man pages go to target/man; the documents are committed, and tests say when they are out of date.
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
            .args(["run", "--quiet", "--package", "gpushare-reference", "--"])
            .arg(workspace().join("docs/reference")),
    )?;
    succeed(
        cargo()
            .args(plugin)
            .arg("man")
            .arg(workspace().join("target/man")),
    )
}
