//! `cargo xtask docs`: writes the documents that are generated from the programs themselves.

use anyhow::Result;

use crate::cargo::{cargo, succeed, workspace};

/// Write docs/cli.md, docs/reference and the man pages from what the programs say of themselves
///
/// The man pages go to target/man; the documents are committed, and tests say when they are out of date.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<()> {
    succeed(
        cargo()
            .args(["run", "--quiet", "--package", "gpushare-reference", "--"])
            .arg(workspace().join("docs")),
    )?;
    let plugin = ["--package", "kubectl-gpushare", "--bin", "kubectl-gpushare"];
    succeed(
        cargo()
            .args(["run", "--quiet"])
            .args(plugin)
            .args(["--", "docs", "man"])
            .arg(workspace().join("target/man")),
    )
}
