//! Calling cargo for this workspace.
//!
//! Everything is built for the whole workspace at once: for a single package, cargo would choose
//! other features of the dependencies and compile them again.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The fake driver's file name.
const FAKE_NVML: &str = "libgpushare_fake_nvml.so";

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

/// What was built: the programs under test, the fake driver, and the programs that test them.
#[derive(Debug)]
pub(crate) struct Products {
    directory: PathBuf,
    tests: Vec<TestProgram>,
}

/// A compiled test.
#[derive(Debug)]
struct TestProgram {
    /// The directory of its package, where cargo would start it.
    package: PathBuf,
    executable: PathBuf,
}

/// The fields we use of an artifact in the output of `cargo build --message-format=json`.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    executable: Option<PathBuf>,
    filenames: Vec<PathBuf>,
    profile: Profile,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds, and returns what was built.
fn artifacts(build: &mut Command) -> Result<Vec<Artifact>> {
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
    build.args(["build", "--release", "--bin", package, "--package", package]);
    program(&mut build).with_context(|| format!("cannot build {package}"))
}

/// Builds, and returns the path of the program that was built.
pub(crate) fn program(build: &mut Command) -> Result<PathBuf> {
    artifacts(build)?
        .into_iter()
        .find_map(|artifact| artifact.executable)
        .context("the build made no program")
}

impl Products {
    /// Builds everything, with these features of workspace members, in the dev profile: on 2 cores
    /// an optimised build takes longer than all tests.
    pub(crate) fn build(features: &[&str]) -> Result<Self> {
        let mut build = cargo();
        build.args([
            "build",
            "--workspace",
            "--all-targets",
            "--features",
            &features.join(","),
        ]);
        Self::of(&artifacts(&mut build)?)
    }

    fn of(artifacts: &[Artifact]) -> Result<Self> {
        let library = artifacts
            .iter()
            .flat_map(|artifact| &artifact.filenames)
            .find(|file| file.ends_with(FAKE_NVML))
            .with_context(|| format!("the build made no {FAKE_NVML}"))?;
        let directory = library
            .parent()
            .context("the fake driver has no directory")?;
        let tests = artifacts.iter().filter(|artifact| artifact.profile.test);
        let tests = tests.filter_map(|artifact| {
            Some(TestProgram {
                package: artifact.manifest_path.parent()?.to_owned(),
                executable: artifact.executable.clone()?,
            })
        });
        Ok(Self {
            directory: directory.to_owned(),
            tests: tests.collect(),
        })
    }

    /// Tells a test command where to find the programs.
    pub(crate) fn announce(&self, command: &mut Command) {
        command.env("GPUSHARE_BIN_DIR", &self.directory);
        command.env("GPUSHARE_FAKE_NVML", self.directory.join(FAKE_NVML));
    }

    /// The tests of the package in the workspace's directory `package`, as commands.
    ///
    /// `start` makes the command for a program; it may be another command that starts the program elsewhere.
    pub(crate) fn tests_of(
        &self,
        package: &str,
        start: impl Fn(&Path) -> Command,
    ) -> Result<Vec<Command>> {
        let package = workspace().join(package);
        let own = self.tests.iter().filter(|test| test.package == package);
        let commands = own.map(|test| {
            let mut command = start(&test.executable);
            command.current_dir(&test.package);
            command.env("CARGO_MANIFEST_DIR", &test.package);
            self.announce(&mut command);
            command
        });
        let commands: Vec<Command> = commands.collect();
        ensure!(!commands.is_empty(), "{} has no tests", package.display());
        Ok(commands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo's message about one artifact in the package `package` of the workspace.
    fn artifact(package: &str, file: &str, test: bool) -> Artifact {
        let manifest = workspace().join(package).join("Cargo.toml");
        let message = serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": manifest,
            "executable": test.then_some(file),
            "filenames": [file],
            "profile": {"opt_level": "0", "test": test},
        });
        serde_json::from_value(message).unwrap()
    }

    #[test]
    fn the_tests_of_a_package_are_started_in_its_directory_and_find_the_programs() {
        let library = artifact(
            "testing/fake-nvml",
            "/out/debug/libgpushare_fake_nvml.so",
            false,
        );
        let own = artifact("testing/e2e", "/out/debug/deps/scenarios-1", true);
        let other = artifact("xtask", "/out/debug/deps/cluster-2", true);
        let products = Products::of(&[library, own, other]).unwrap();
        let commands = products
            .tests_of("testing/e2e", |program| Command::new(program))
            .unwrap();
        let [command] = &commands[..] else {
            panic!("one program was expected: {commands:?}")
        };
        assert_eq!(command.get_program(), "/out/debug/deps/scenarios-1");
        assert_eq!(
            command.get_current_dir(),
            Some(&*workspace().join("testing/e2e"))
        );
        let bin_dir = command
            .get_envs()
            .find(|(name, _)| *name == "GPUSHARE_BIN_DIR");
        assert_eq!(bin_dir.unwrap().1.unwrap(), "/out/debug");
    }

    #[test]
    fn a_package_whose_tests_were_not_built_is_an_error_and_not_a_success() {
        let library = artifact(
            "testing/fake-nvml",
            "/out/debug/libgpushare_fake_nvml.so",
            false,
        );
        let products = Products::of(&[library]).unwrap();
        assert!(
            products
                .tests_of("testing/e2e", |program| Command::new(program))
                .is_err()
        );
    }
}
