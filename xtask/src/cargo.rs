//! Calling cargo for this workspace.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// The cargo that runs us, started in the root of the workspace.
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

/// Runs a command whose output the user sees; returns an error if it fails.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} ended with {status}");
    Ok(())
}
/// The fields we use of an artifact in the output of `cargo build --message-format=json`.
#[derive(Deserialize)]
pub(crate) struct Artifact {
    pub(crate) manifest_path: PathBuf,
    pub(crate) executable: Option<PathBuf>,
    pub(crate) filenames: Vec<PathBuf>,
    pub(crate) profile: Profile,
    pub(crate) target: Target,
}

#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    /// Absent from messages of a build; `cargo metadata` has it.
    #[serde(default, rename = "required-features")]
    pub(crate) required_features: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Profile {
    pub(crate) test: bool,
}

/// Builds, and returns what was built.
pub(crate) fn artifacts(build: &mut Command) -> Result<Vec<Artifact>> {
    build.arg("--message-format=json-render-diagnostics");
    let mut child = build
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let stdout = child.stdout.take().context("cargo has no output")?;
    let mut artifacts = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cannot read cargo's messages")?;
        // Messages of other kinds have other fields.
        artifacts.extend(serde_json::from_str::<Artifact>(&line));
    }
    let status = child.wait().context("cannot wait for cargo")?;
    ensure!(status.success(), "the build ended with {status}");
    Ok(artifacts)
}

/// Builds the program that has its package's name, optimised.
pub(crate) fn optimised(package: &str) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--profile", "dist"]);
    build.args(["--bin", package, "--package", package]);
    program(&mut build).with_context(|| format!("cannot build {package}"))
}

/// Builds, and returns the path of the program that was built.
pub(crate) fn program(build: &mut Command) -> Result<PathBuf> {
    artifacts(build)?
        .into_iter()
        .find_map(|artifact| artifact.executable)
        .context("the build made no program")
}

/// A package of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

fn metadata() -> Result<Metadata> {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--no-deps"])
        .output()
        .context("cannot start cargo")?;
    serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")
}

pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(metadata()?.target_directory)
}

/// The package with this name, with or without our prefix.
pub(crate) fn package(name: &str) -> Result<Package> {
    let mut packages = packages()?;
    let called = |package: &Package| {
        package.name == name || package.name.strip_prefix("gpushare-") == Some(name)
    };
    if let Some(found) = packages.iter().position(called) {
        return Ok(packages.swap_remove(found));
    }
    let names: Vec<&str> = packages.iter().map(|package| &*package.name).collect();
    bail!("no package {name:?}; there are {}", names.join(", "))
}

/// All packages of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>> {
    Ok(metadata()?.packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_with_and_without_our_prefix_and_a_wrong_name_shows_all() {
        assert_eq!(package("extender").unwrap().name, "gpushare-extender");
        assert_eq!(
            package("gpushare-extender").unwrap().name,
            "gpushare-extender"
        );
        assert_eq!(package("xtask").unwrap().name, "xtask");
        let error = package("extendr").err().unwrap().to_string();
        assert!(error.contains("gpushare-extender"), "{error}");
    }
}
