//! `cargo xtask e2e`: everything on a real Kubernetes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use gpushare_rig::{Binaries, Options, Rig, host, sweep};

use crate::products::{Needs, Products};
use crate::steps::{Steps, Tests, name_of};

/// Test on a real Kubernetes: API server, scheduler, kubelet and containerd
///
/// Builds the cluster's programs into the cache the first time (about 15 minutes on 2 cores),
/// then runs the tests of the rig, the scenarios, and the integration suite against the real API
/// server, and the dashboard's in a real Chromium. Every cluster lives in namespaces of its own and leaves nothing behind. Needs root and
/// Go; what is missing is a failure, never a skip.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only tests whose name contains this
    filter: Option<String>,
    /// Put the clusters' logs below this directory (default: the cache)
    #[arg(long, value_name = "DIR")]
    keep_logs: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    host::check()?;
    let mut steps = Steps::default();
    steps.run("remains of killed clusters", |_| {
        for name in sweep()? {
            println!("removed what was left of {name}");
        }
        Ok(())
    });
    let binaries = steps.run("cluster programs", |_| Binaries::ensure());
    let products = steps.run("build", |_| Products::build());
    if let (Some(_), Some(products)) = (binaries, products) {
        let suite = Suite {
            filters: arguments.filter.iter().map(String::as_str).collect(),
            env: Vec::new(),
            show_output: false,
            logs: arguments.log_directory()?,
            products,
        };
        steps.run("tests on clusters of their own", |tests| {
            suite.run_side_by_side(tests)
        });
        steps.run("integration on the real API server", |tests| {
            suite.integration(tests)
        });
    }
    steps.finish(arguments.filter.as_deref())
}

impl Arguments {
    /// Absolute, because the tests run in other directories.
    fn log_directory(&self) -> Result<Option<PathBuf>> {
        let Some(dir) = &self.keep_logs else {
            return Ok(None);
        };
        std::path::absolute(dir)
            .map(Some)
            .with_context(|| format!("no path: {}", dir.display()))
    }
}

/// Packages whose test programs start clusters of their own.
const PACKAGES: [&str; 4] = ["testing/e2e", "testing/rig", "xtask", "crates/dashboard"];

/// The test program that takes the longest, so it starts first.
pub(crate) const LONGEST: &str = "scenarios";

/// Built test programs and how to run them.
pub(crate) struct Suite<'a> {
    /// Only tests whose name contains one of these; all when there is none.
    pub(crate) filters: Vec<&'a str>,
    pub(crate) env: Vec<(&'a str, String)>,
    /// Also what successful tests print.
    pub(crate) show_output: bool,
    pub(crate) logs: Option<PathBuf>,
    pub(crate) products: Products,
}

impl Suite<'_> {
    /// The tests of all packages that start clusters of their own.
    ///
    /// Programs run side by side, because they mostly wait.
    fn run_side_by_side(&self, tests: &mut Tests) -> Result<()> {
        let mut commands = Vec::new();
        for package in PACKAGES {
            commands.extend(self.commands(package)?);
        }
        commands.sort_by_key(|command| !name_of(command).ends_with(LONGEST));
        tests.run_side_by_side(commands)
    }

    /// The tests of one package, which start clusters of their own.
    pub(crate) fn commands(&self, package: &str) -> Result<Vec<Command>> {
        let start = |program: &Path| self.set_up(Command::new(program));
        self.products.tests_of(package, Needs::RealParts, start)
    }

    /// Passes on the options of this run. The tests of a program run one after the other: they may share a cluster.
    fn set_up(&self, mut command: Command) -> Command {
        command.arg("--test-threads=1");
        command.args(&self.filters);
        command.args(self.show_output.then_some("--show-output"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(logs) = &self.logs {
            command.env("GPUSHARE_RIG_LOGS", logs);
        }
        command
    }

    /// The suite that also runs on the embedded API server, unchanged, in a cluster's network.
    fn integration(&self, tests: &mut Tests) -> Result<()> {
        let log_dir = self.logs.as_ref().map(|logs| logs.join("integration"));
        let rig = Rig::start(Options {
            log_dir,
            ..Options::default()
        })?;
        let result = self.integration_in(&rig, tests);
        if result.is_err() {
            println!("the cluster's logs are in {}", rig.logs().display());
        }
        rig.stop()?;
        result
    }

    fn integration_in(&self, rig: &Rig, tests: &mut Tests) -> Result<()> {
        let start = |program: &Path| {
            let mut command = rig.net(program);
            command.env("GPUSHARE_TEST_KUBECONFIG", rig.kubeconfig());
            self.set_up(command)
        };
        let package = "testing/integration";
        tests.run_all(self.products.tests_of(package, Needs::Nothing, start)?)
    }
}
