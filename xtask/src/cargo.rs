//! Calling cargo for this workspace.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The programs under test and the fake driver, by package.
const PRODUCTS: [&str; 4] = [
    "gpushare-control",
    "gpushare-node",
    "kubectl-gpushare",
    "gpushare-fake-nvml",
];

/// Cargo, as the one that runs us, in the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    command
}

/// The root of the workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// Runs a command whose output the person sees; an error if it fails.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} ended with {status}");
    Ok(())
}

/// Where the built programs and the fake driver are, for tests that start them.
#[derive(Debug)]
pub(crate) struct Products {
    directory: PathBuf,
}

impl Products {
    /// Builds them in the dev profile: on 2 cores an optimised build takes longer than all tests.
    pub(crate) fn build() -> Result<Self> {
        let mut build = cargo();
        build.args(["build", "--bins", "--lib"]);
        for package in PRODUCTS {
            build.args(["--package", package]);
        }
        succeed(&mut build)?;
        Ok(Self {
            directory: target_directory()?.join("debug"),
        })
    }

    /// Tells a test command where to find them.
    pub(crate) fn announce(&self, command: &mut Command) {
        let library = self.directory.join("libgpushare_fake_nvml.so");
        command
            .env("GPUSHARE_BIN_DIR", &self.directory)
            .env("GPUSHARE_FAKE_NVML", library);
    }
}

fn target_directory() -> Result<PathBuf> {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--no-deps"])
        .output()
        .context("cannot start cargo metadata")?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    match metadata.get("target_directory").and_then(Value::as_str) {
        Some(directory) => Ok(PathBuf::from(directory)),
        None => bail!("cargo metadata named no target directory"),
    }
}

/// The environment variable that names the program through which cargo starts tests.
pub(crate) fn runner_variable() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("-vV")
        .output()
        .context("cannot start rustc")?;
    let version = String::from_utf8_lossy(&output.stdout);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV named no host")?;
    Ok(format!(
        "CARGO_TARGET_{}_RUNNER",
        host.to_uppercase().replace('-', "_")
    ))
}
