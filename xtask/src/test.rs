//! `cargo xtask test`: everything that needs neither root nor Go.

use anyhow::Result;

use crate::cargo::{Products, cargo, succeed};
use crate::steps::Steps;
use crate::{fuzz, nvidia_smi, python, tidy};

/// Seconds for each target: enough to reach every branch again, not for a long search.
const SECONDS_OF_FUZZING: u32 = 4;

/// Check and test everything that needs neither root nor a cluster
///
/// Formatting, lints, unit and integration tests on the embedded API server, the fake GPU driver
/// read by real clients, a few seconds of fuzzing for each parser, documentation, and the rules of this repository. What the tests need
/// (nvidia-ml-py, nvidia-smi, PostgreSQL) is fetched into the cache, not installed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only tests whose name contains this, and nothing but tests
    filter: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut steps = Steps::default();
    if arguments.filter.is_none() {
        check(&mut steps);
    }
    let products = steps.run("build", |_| Products::build(&[]));
    let python = steps.run("Python with nvidia-ml-py", |_| python::ensure());
    let smi = steps.run("nvidia-smi", |_| nvidia_smi::ensure());
    steps.run("tests", |tests| {
        let mut command = cargo();
        // Without the scenarios of e2e, which are behind a feature.
        command.args(["test", "--workspace", "--no-fail-fast"]);
        if let Some(products) = &products {
            products.announce(&mut command);
        }
        if let Some(python) = &python {
            command.env("GPUSHARE_PYTHON", python);
        }
        if let Some(Some(smi)) = &smi {
            command.env("GPUSHARE_NVIDIA_SMI", smi);
        }
        if let Some(filter) = &arguments.filter {
            command.args(["--", filter]);
        }
        tests.run(&mut command)
    });
    if arguments.filter.is_none() {
        steps.run("fuzzing", |_| fuzz::search_all(SECONDS_OF_FUZZING));
        steps.run("documentation", |_| {
            let mut doc = cargo();
            doc.args(["doc", "--workspace", "--no-deps", "--quiet"]);
            succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
        });
    }
    steps.finish(arguments.filter.as_deref())
}

fn check(steps: &mut Steps) {
    steps.run("formatting", |_| {
        succeed(cargo().args(["fmt", "--all", "--check"]))
    });
    steps.run("rules", |_| tidy::check());
    steps.run("lints", |_| {
        let mut clippy = cargo();
        clippy.args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--quiet",
        ]);
        succeed(clippy.args(["--", "-D", "warnings"]))
    });
}
