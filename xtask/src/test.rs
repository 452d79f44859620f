//! `cargo xtask test`: everything that needs neither root nor Go.

use anyhow::Result;

use crate::cargo::{Package, cargo, package, succeed};
use crate::products::Products;
use crate::steps::Steps;
use crate::{fuzz, nvidia_smi, python, tidy};

/// Seconds for each target: enough to reach every branch again, not for a long search.
const SECONDS_OF_FUZZING: u32 = 4;

/// Check and test everything that needs neither root nor a cluster
///
/// Formatting, lints, unit and integration tests on the embedded API server, the fake GPU driver
/// read by real clients, a few seconds of fuzzing for each parser, documentation, and the rules of this repository. What the tests need
/// (nvidia-ml-py, nvidia-smi, PostgreSQL) is fetched into the cache, not installed.
///
/// While you work on one crate, `cargo xtask test -p CRATE` checks and tests only that crate.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only tests whose name contains this, and nothing but tests
    filter: Option<String>,
    /// Check and test only this package of the workspace, such as extender
    #[arg(short, long = "package", value_name = "CRATE")]
    package: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let only = arguments.package.as_deref().map(package).transpose()?;
    let mut steps = Steps::default();
    if arguments.filter.is_none() {
        check(&mut steps, only.as_ref());
    }
    let products = steps.run("build", |_| match &only {
        None => Products::build(),
        Some(package) => Products::build_package(package),
    });
    let python = steps.run("Python with nvidia-ml-py", |_| python::ensure());
    let smi = steps.run("nvidia-smi", |_| nvidia_smi::ensure());
    if let Some(products) = products {
        steps.run("tests", |tests| {
            let mut commands = products.tests(only.as_ref());
            for command in &mut commands {
                if let Some(python) = &python {
                    command.env("GPUSHARE_PYTHON", python);
                }
                if let Some(Some(smi)) = &smi {
                    command.env("GPUSHARE_NVIDIA_SMI", smi);
                }
                command.args(&arguments.filter);
            }
            tests.run_side_by_side(commands)
        });
    }
    if arguments.filter.is_none() && only.is_none() {
        steps.run("fuzzing", |_| fuzz::search_all(SECONDS_OF_FUZZING));
        steps.run("documentation", |_| {
            let mut doc = cargo();
            doc.args(["doc", "--workspace", "--no-deps", "--quiet"]);
            succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
        });
    }
    steps.finish(arguments.filter.as_deref())
}

fn check(steps: &mut Steps, only: Option<&Package>) {
    steps.run("formatting", |_| {
        succeed(cargo().args(["fmt", "--all", "--check"]))
    });
    steps.run("rules", |_| tidy::check());
    steps.run("lints", |_| {
        let mut clippy = cargo();
        clippy.args(["clippy", "--all-targets", "--all-features", "--quiet"]);
        match only {
            None => clippy.arg("--workspace"),
            Some(package) => clippy.args(["--package", &package.name]),
        };
        succeed(clippy.args(["--", "-D", "warnings"]))
    });
}
