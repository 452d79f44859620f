//! `cargo xtask dashboard`: the dashboard's tests in a real Chromium, and pictures of its views.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cargo::{cargo, succeed};

/// The test that takes the pictures.
const PICTURES: &str = "pictures_of_every_view_can_be_taken";

/// Test the dashboard in a real Chromium, or take pictures of it
///
/// Chromium is fetched from the machine's Debian mirrors into the cache, and axe-core with npm; nothing is
/// installed. `cargo xtask e2e` runs the same tests.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only tests whose name contains this
    filter: Option<String>,
    /// Take pictures of every view, in light and dark, into this directory, and do nothing else
    #[arg(long, value_name = "DIR", conflicts_with = "filter")]
    screenshots: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut test = cargo();
    test.args(["test", "--package", "gpushare-dashboard"]);
    test.args(["--features", "real-browser", "--test", "browser", "--"]);
    test.args(["--test-threads=1"]);
    test.args(&arguments.filter);
    if let Some(directory) = &arguments.screenshots {
        let directory = std::path::absolute(directory)
            .with_context(|| format!("no path: {}", directory.display()))?;
        test.arg(PICTURES).env("GPUSHARE_SCREENSHOTS", directory);
    }
    succeed(&mut test)
}
