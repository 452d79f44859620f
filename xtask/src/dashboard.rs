//! `cargo xtask dashboard`: the dashboard's tests in a real Chromium, and pictures of its views.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cargo::{cargo, succeed, workspace};

/// The test that takes the pictures for the documents.
const PICTURES: &str = "pictures_of_every_view_can_be_taken";
/// All tests that take pictures.
const ALL_PICTURES: [&str; 4] = [
    PICTURES,
    "five_thousand_nodes",
    "the_login_page",
    "a_pod_is_found",
];
/// The directory of the pictures that the documents show.
const SHOWN: &str = "docs/images";

/// Test the dashboard in a real Chromium, or take pictures of it
///
/// Chromium is fetched from the machine's Debian mirrors into the cache, and axe-core and TypeScript with npm; nothing is
/// installed. `cargo xtask e2e` runs the same tests.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only tests whose name contains this
    filter: Option<String>,
    /// Take pictures of every view, in light and dark, in small and wide windows and with 5,000 nodes, into this
    /// directory, and do nothing else
    #[arg(long, value_name = "DIR", conflicts_with = "filter")]
    screenshots: Option<PathBuf>,
    /// Take those pictures anew that the documents show, and do nothing else
    #[arg(long, conflicts_with_all = ["filter", "screenshots"])]
    for_documents: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.for_documents {
        return for_documents();
    }
    match &arguments.screenshots {
        Some(directory) => pictures(directory, &ALL_PICTURES),
        None => test(arguments.filter.as_slice(), None),
    }
}

fn pictures(directory: &Path, tests: &[&str]) -> Result<()> {
    let directory = std::path::absolute(directory)
        .with_context(|| format!("no path: {}", directory.display()))?;
    test(tests, Some(&directory))
}

fn test(filters: &[impl AsRef<OsStr>], pictures: Option<&Path>) -> Result<()> {
    let mut test = cargo();
    // For the whole workspace, so that dependencies are not compiled again with other features.
    test.args(["test", "--workspace", "--test", "browser"]);
    test.args(["--features", "gpushare-dashboard/real-browser", "--"]);
    test.arg("--test-threads=1").args(filters);
    if let Some(directory) = pictures {
        test.env("GPUSHARE_SCREENSHOTS", directory);
    }
    succeed(&mut test)
}

fn for_documents() -> Result<()> {
    let taken = tempfile::tempdir().context("cannot create a directory for the pictures")?;
    pictures(taken.path(), &[PICTURES])?;
    let shown = workspace().join(SHOWN);
    for entry in fs::read_dir(&shown).with_context(|| format!("cannot list {SHOWN}"))? {
        let name = entry.context("cannot list the pictures")?.file_name();
        let picture = taken.path().join(&name);
        if picture.exists() {
            fs::copy(&picture, shown.join(&name))
                .with_context(|| format!("cannot replace {}", name.display()))?;
            println!("{SHOWN}/{}", name.display());
        }
    }
    Ok(())
}
