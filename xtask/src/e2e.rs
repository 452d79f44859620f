//! `cargo xtask e2e`: everything on a real Kubernetes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use gpushare_rig::{Binaries, Options, Rig, host, sweep};

use crate::products::{Needs, Products};
use crate::steps::{Steps, Tests};

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
    /// How many scenarios run at once; more than one only with a filter for scenarios with clusters of their own (0.75 GiB each)
    #[arg(long, value_name = "N", default_value_t = 1)]
    test_threads: u32,
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
            threads: arguments.test_threads,
            logs: arguments.log_directory()?,
            products,
        };
        steps.run("rig", |tests| suite.run(tests, "testing/rig"));
        steps.run("cluster command", |tests| suite.run(tests, "xtask"));
        steps.run("scenarios", |tests| suite.run(tests, "testing/e2e"));
        steps.run("dashboard in Chromium", |tests| {
            suite.run(tests, "crates/dashboard")
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

/// Built test programs and how to run them.
pub(crate) struct Suite<'a> {
    /// Only tests whose name contains one of these; all when there is none.
    pub(crate) filters: Vec<&'a str>,
    pub(crate) env: Vec<(&'a str, String)>,
    /// Also what successful tests print.
    pub(crate) show_output: bool,
    pub(crate) threads: u32,
    pub(crate) logs: Option<PathBuf>,
    pub(crate) products: Products,
}

impl Suite<'_> {
    /// The tests of one package, which start clusters of their own.
    pub(crate) fn run(&self, tests: &mut Tests, package: &str) -> Result<()> {
        self.run_with(tests, package, Needs::RealParts, |program| {
            let mut command = Command::new(program);
            command.arg(format!("--test-threads={}", self.threads));
            command
        })
    }

    /// The suite that also runs on the embedded API server, unchanged, in a cluster's network.
    fn integration(&self, tests: &mut Tests) -> Result<()> {
        let log_dir = self.logs.as_ref().map(|logs| logs.join("integration"));
        let rig = Rig::start(Options {
            log_dir,
            ..Options::default()
        })?;
        let result = self.run_with(tests, "testing/integration", Needs::Nothing, |program| {
            let mut command = rig.net(program);
            command.env("GPUSHARE_TEST_KUBECONFIG", rig.kubeconfig());
            // All these tests share one cluster.
            command.arg("--test-threads=1");
            command
        });
        if result.is_err() {
            println!("the cluster's logs are in {}", rig.logs().display());
        }
        rig.stop()?;
        result
    }

    /// Every test program of the package is run, even when one before it failed.
    fn run_with(
        &self,
        tests: &mut Tests,
        package: &str,
        needs: Needs,
        start: impl Fn(&Path) -> Command,
    ) -> Result<()> {
        let mut failures = Vec::new();
        for mut command in self.products.tests_of(package, needs, start)? {
            command.args(&self.filters);
            command.args(self.show_output.then_some("--show-output"));
            command.envs(self.env.iter().map(|(name, value)| (name, value)));
            if let Some(logs) = &self.logs {
                command.env("GPUSHARE_RIG_LOGS", logs);
            }
            failures.extend(
                tests
                    .run(&mut command)
                    .err()
                    .map(|error| format!("{error:#}")),
            );
        }
        if !failures.is_empty() {
            bail!("{}", failures.join("\n"));
        }
        Ok(())
    }
}
