//! `cargo xtask e2e`: everything on a real Kubernetes.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use gpushare_rig::{Binaries, Options, Rig, host, sweep};

use crate::cargo::{Products, cargo, runner_variable};
use crate::steps::{Steps, Tests};

/// Test on a real Kubernetes: API server, scheduler, kubelet and containerd
///
/// Builds the cluster's programs into the cache the first time (about 15 minutes on 2 cores),
/// then runs the tests of the rig, the scenarios, and the integration suite against the real API
/// server. Every cluster lives in namespaces of its own and leaves nothing behind. Needs root and
/// Go; what is missing is a failure, never a skip.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only tests whose name contains this
    filter: Option<String>,
    /// Put the clusters' logs below this directory (default: the cache)
    #[arg(long, value_name = "DIR")]
    keep_logs: Option<PathBuf>,
    /// How many scenarios run at once, each with a cluster of its own (0.75 GiB)
    #[arg(long, value_name = "N", default_value_t = 1)]
    test_threads: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    host::check()?;
    let suite = Suite {
        arguments,
        logs: arguments.log_directory()?,
    };
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
        steps.run("rig", |tests| suite.rig(tests));
        steps.run("cluster command", |tests| suite.cluster_command(tests));
        steps.run("scenarios", |tests| suite.scenarios(tests, &products));
        steps.run("integration on the real API server", |tests| {
            suite.integration(tests, &products)
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

struct Suite<'a> {
    arguments: &'a Arguments,
    logs: Option<PathBuf>,
}

impl Suite<'_> {
    fn rig(&self, tests: &mut Tests) -> Result<()> {
        let mut command = self.cargo_test("gpushare-rig");
        command.args(["--features", "real-cluster", "--test", "real_cluster"]);
        tests.run(self.with_arguments(&mut command))
    }

    fn cluster_command(&self, tests: &mut Tests) -> Result<()> {
        let mut command = self.cargo_test("xtask");
        command.args(["--features", "real-cluster", "--test", "cluster"]);
        tests.run(self.with_arguments(&mut command))
    }

    fn scenarios(&self, tests: &mut Tests, products: &Products) -> Result<()> {
        let mut command = self.cargo_test("e2e");
        command.args(["--features", "real-cluster"]);
        products.announce(&mut command);
        tests.run(self.with_arguments(&mut command))
    }

    /// The suite that also runs on the embedded API server, unchanged: cargo starts its test
    /// programs inside a cluster's network.
    fn integration(&self, tests: &mut Tests, products: &Products) -> Result<()> {
        // Built first: a cluster need not wait for the compiler.
        let mut build = self.cargo_test("integration");
        crate::cargo::succeed(build.args(["--tests", "--no-run"]))?;
        let rig = Rig::start(Options {
            log_dir: self.rig_logs("integration"),
            ..Options::default()
        })?;
        let mut command = self.cargo_test("integration");
        command.arg("--tests");
        products.announce(&mut command);
        command.env(
            runner_variable()?,
            format!("nsenter --target {} --net --", rig.pid()),
        );
        command.env("GPUSHARE_TEST_KUBECONFIG", rig.kubeconfig());
        let result = tests.run(self.with_arguments(&mut command));
        if result.is_err() {
            println!("the cluster's logs are in {}", rig.logs().display());
        }
        rig.stop()?;
        result
    }

    fn cargo_test(&self, package: &str) -> Command {
        let mut command = cargo();
        command.args(["test", "--no-fail-fast", "--package", package]);
        if let Some(logs) = &self.logs {
            command.env("GPUSHARE_RIG_LOGS", logs);
        }
        command
    }

    fn rig_logs(&self, name: &str) -> Option<PathBuf> {
        self.logs.as_ref().map(|logs| logs.join(name))
    }

    /// What is for the test programs, after everything that is for cargo.
    fn with_arguments<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .arg("--")
            .arg(format!("--test-threads={}", self.arguments.test_threads));
        command.args(&self.arguments.filter)
    }
}
