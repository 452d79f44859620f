//! `cargo xtask docs`: writes the files that are generated from the programs.

use anyhow::Result;

use crate::cargo::{cargo, succeed, workspace};

/// Write docs/cli.md, docs/reference, deploy/crd.yaml and the man pages from the programs
///
/// The man pages go to target/man. The other files are committed, and a test fails when they are out of date.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<()> {
    succeed(
        cargo()
            .args(["run", "--quiet", "--package", "gpushare-reference", "--"])
            .arg(workspace()),
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
