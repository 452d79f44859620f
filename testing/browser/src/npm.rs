//! npm packages that checks need: in the cache, not in the checkout and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use gpushare_rig::cache::{self, Lock};

/// The directory of a package of this version, fetched the first time.
pub fn package(name: &str, version: &str) -> Result<PathBuf> {
    let dir = cache::root()?.join("npm");
    let files = dir.join(format!("{name}-{version}"));
    let _lock = Lock::wait(&dir.join("lock"), || {
        eprintln!("waiting for another process that fetches {name}");
    })?;
    if files.exists() {
        return Ok(files.join("package"));
    }
    let partial = dir.join("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).context("cannot remove an interrupted download")?;
    }
    fs::create_dir_all(&partial)
        .with_context(|| format!("cannot create the directory for {name}"))?;
    let wanted = format!("{name}@{version}");
    run(
        Command::new("npm").args(["pack", "--silent", &wanted]),
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
    fs::rename(&partial, &files).with_context(|| format!("cannot move {name} into place"))?;
    Ok(files.join("package"))
}

fn run(command: &mut Command, directory: &Path) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .current_dir(directory)
        .output()
        .with_context(|| format!("cannot start {program}: install it, the checks need it"))?;
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
