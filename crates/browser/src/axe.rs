//! axe-core, the accessibility checker, as its npm package has it; in the cache, not in the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use gpushare_rig::cache::{self, Lock};
use serde_json::Value;

use crate::Page;

/// The version that findings were looked at with.
const PACKAGE: &str = "axe-core@4.14.0";

/// The checker's script.
pub fn script() -> Result<String> {
    let file = fetched()?.join("package/axe.min.js");
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// What is seriously wrong with the page for people who use it otherwise, each in one line.
pub fn findings(page: &Page, script: &str) -> Result<Vec<String>> {
    // Once in a page is enough; without a value, which would be large.
    page.eval(&format!("if (!window.axe) {{ {script} }}; true"))?;
    let found = page.eval(
        "axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations
            .filter((found) => ['serious', 'critical'].includes(found.impact))
            .flatMap((found) => found.nodes.map((node) => `${found.id}: ${node.html} ${node.failureSummary}`)))",
    )?;
    let found = found.as_array().context("axe-core gave no list")?;
    let line = |one: &Value| one.as_str().unwrap_or_default().to_owned();
    Ok(found.iter().map(line).collect())
}

fn fetched() -> Result<PathBuf> {
    let dir = cache::root()?.join("axe-core");
    let files = dir.join(PACKAGE);
    let _lock = Lock::wait(&dir.join("lock"), || {
        eprintln!("waiting for another process that fetches axe-core");
    })?;
    if files.exists() {
        return Ok(files);
    }
    let partial = dir.join("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).context("cannot remove an interrupted download")?;
    }
    fs::create_dir_all(&partial).context("cannot create the directory for axe-core")?;
    run(
        Command::new("npm").args(["pack", "--silent", PACKAGE]),
        &partial,
    )?;
    let archive = fs::read_dir(&partial)
        .context("cannot list the download")?
        .next()
        .context("npm packed nothing")??;
    run(
        Command::new("tar").arg("-xzf").arg(archive.path()),
        &partial,
    )?;
    fs::rename(&partial, &files).context("cannot move axe-core into place")?;
    Ok(files)
}

fn run(command: &mut Command, directory: &Path) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .current_dir(directory)
        .output()
        .with_context(|| format!("cannot start {program}; it is needed to fetch axe-core"))?;
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
