//! What `cargo xtask` builds to test it: the programs, the fake driver, and the test programs.
//!
//! Everything is built for the whole workspace at once: for a single package, cargo would choose
//! other features of the dependencies and compile them again.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{Artifact, Package, Target, artifacts, cargo, packages, workspace};

/// The fake driver's file name.
const FAKE_NVML: &str = "libgpushare_fake_nvml.so";

/// Build the tests that need a real cluster or browser, and the timekeeper with a clock that tests move. Both `test` and `e2e`
/// build with them: with other features cargo would compile our crates a second time.
const FEATURES: [&str; 5] = [
    "gpushare-control/movable-clock",
    "gpushare-rig/real-cluster",
    "xtask/real-cluster",
    "e2e/real-cluster",
    "gpushare-dashboard/real-browser",
];

/// The package whose tests explore orders of events, for minutes.
const EXPLORATIONS: &str = "crates/books";

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
    needs: Needs,
}

/// What a test needs besides the programs of this repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// A real cluster or browser: its target is behind a feature.
    RealParts,
}

impl Products {
    /// Builds everything in the dev profile: on 2 cores an optimised build takes longer than all tests.
    pub(crate) fn build() -> Result<Self> {
        let mut build = cargo();
        build.args([
            "build",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--features",
        ]);
        build.arg(FEATURES.join(","));
        Self::of(&artifacts(&mut build)?, &real_tests()?)
    }

    /// Builds one package and what its tests start.
    pub(crate) fn build_package(package: &Package) -> Result<Self> {
        let mut build = cargo();
        build.args(["build", "--lib", "--bins", "--tests"]);
        build.args(["--package", &package.name]);
        build.args(["--package", "gpushare-fake-nvml"]);
        if package.name == "processes" {
            build.args(["--package", "gpushare-control"]);
        }
        Self::of(&artifacts(&mut build)?, &real_tests()?)
    }

    fn of(artifacts: &[Artifact], real: &[(PathBuf, String)]) -> Result<Self> {
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
            let is_real = real.iter().any(|(manifest, name)| {
                *manifest == artifact.manifest_path && *name == artifact.target.name
            });
            let is_test = artifact.target.kind.iter().any(|kind| kind == "test");
            Some(TestProgram {
                package: artifact.manifest_path.parent()?.to_owned(),
                executable: artifact.executable.clone()?,
                needs: if is_real && is_test {
                    Needs::RealParts
                } else {
                    Needs::Nothing
                },
            })
        });
        Ok(Self {
            directory: directory.to_owned(),
            tests: tests.collect(),
        })
    }

    /// Tells a test command where to find the programs.
    fn announce(&self, command: &mut Command) {
        command.env("GPUSHARE_BIN_DIR", &self.directory);
        command.env("GPUSHARE_FAKE_NVML", self.directory.join(FAKE_NVML));
    }

    /// The tests with these needs of the package in the workspace's directory `package`, as commands.
    ///
    /// `start` makes the command for a program; it may be another command that starts the program elsewhere.
    pub(crate) fn tests_of(
        &self,
        package: &str,
        needs: Needs,
        start: impl Fn(&Path) -> Command,
    ) -> Result<Vec<Command>> {
        let directory = workspace().join(package);
        let own = |test: &&TestProgram| test.package == directory && test.needs == needs;
        let commands: Vec<Command> = self
            .tests
            .iter()
            .filter(own)
            .map(|test| self.command(test, &start))
            .collect();
        ensure!(!commands.is_empty(), "{package} has no such tests");
        Ok(commands)
    }

    /// The tests that need no real cluster or browser, of one package or of all, with those first that take the longest: the
    /// explorations, and then large programs.
    pub(crate) fn tests(&self, only: Option<&Package>) -> Vec<Command> {
        let chosen = |test: &&TestProgram| {
            test.needs == Needs::Nothing
                && only.is_none_or(|package| package.manifest_path.parent() == Some(&test.package))
        };
        let mut tests: Vec<&TestProgram> = self.tests.iter().filter(chosen).collect();
        let explores = |test: &TestProgram| test.package.ends_with(EXPLORATIONS);
        let size = |test: &TestProgram| fs::metadata(&test.executable).map_or(0, |file| file.len());
        tests.sort_by_cached_key(|test| Reverse((explores(test), size(test))));
        let start = |program: &Path| Command::new(program);
        tests
            .into_iter()
            .map(|test| self.command(test, start))
            .collect()
    }

    fn command(&self, test: &TestProgram, start: impl Fn(&Path) -> Command) -> Command {
        let mut command = start(&test.executable);
        command.current_dir(&test.package);
        command.env("CARGO_MANIFEST_DIR", &test.package);
        self.announce(&mut command);
        command
    }
}

/// Manifest and name of each test that needs real parts.
fn real_tests() -> Result<Vec<(PathBuf, String)>> {
    let packages = packages()?.into_iter();
    let tests = packages.flat_map(|package| {
        let real = |target: &Target| {
            let mut features = target.required_features.iter();
            features.any(|feature| feature.starts_with("real-"))
        };
        let targets = package.targets.into_iter().filter(real);
        let named = targets.map(move |target| (package.manifest_path.clone(), target.name));
        named.collect::<Vec<_>>()
    });
    Ok(tests.collect())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::cargo::package;

    /// Cargo's message about one artifact in the package `package` of the workspace.
    fn artifact(package: &str, name: &str, file: &str, test: bool) -> Artifact {
        let manifest = workspace().join(package).join("Cargo.toml");
        let message = serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": manifest,
            "executable": test.then_some(file),
            "filenames": [file],
            "profile": {"opt_level": "0", "test": test},
            "target": {"name": name, "kind": [if test { "test" } else { "cdylib" }]},
        });
        serde_json::from_value(message).unwrap()
    }

    fn products() -> Products {
        let library = artifact(
            "testing/fake-nvml",
            "gpushare_fake_nvml",
            "/out/debug/libgpushare_fake_nvml.so",
            false,
        );
        let own = artifact(
            "testing/e2e",
            "scenarios",
            "/out/debug/deps/scenarios-1",
            true,
        );
        let plain = artifact("testing/e2e", "e2e", "/out/debug/deps/e2e-3", true);
        let other = artifact("xtask", "cluster", "/out/debug/deps/cluster-2", true);
        Products::of(&[library, own, plain, other], &real_tests().unwrap()).unwrap()
    }

    fn programs(commands: &[Command]) -> Vec<&str> {
        let programs = commands.iter().map(Command::get_program);
        programs.filter_map(OsStr::to_str).collect()
    }

    #[test]
    fn the_tests_of_a_package_are_started_in_its_directory_and_find_the_programs() {
        let products = products();
        let start = |program: &Path| Command::new(program);
        let commands = products.tests_of("testing/e2e", Needs::RealParts, start);
        let commands = commands.unwrap();
        assert_eq!(programs(&commands), ["/out/debug/deps/scenarios-1"]);
        let [command] = &commands[..] else {
            panic!("one program was expected: {commands:?}")
        };
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
    fn a_test_runs_with_the_others_exactly_if_it_needs_no_real_parts() {
        let of = |only: Option<&str>| {
            let package = only.map(|name| package(name).unwrap());
            programs(&products().tests(package.as_ref())).len()
        };
        assert_eq!(programs(&products().tests(None)), ["/out/debug/deps/e2e-3"]);
        assert_eq!((of(None), of(Some("e2e")), of(Some("xtask"))), (1, 1, 0));
    }

    #[test]
    fn a_package_whose_tests_were_not_built_is_an_error_and_not_a_success() {
        let start = |program: &Path| Command::new(program);
        let none = products().tests_of("testing/rig", Needs::RealParts, start);
        assert!(none.is_err());
    }
}
