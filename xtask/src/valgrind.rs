//! valgrind, which counts instructions: the machine's own, or Debian's package, which is unpacked into the cache
//! without root.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use gpushare_rig::apt::{Apt, find_program};
use gpushare_rig::cache::{self, Lock};

/// Lets the command and the programs it starts find valgrind. Where there is none, they report it themselves.
pub(crate) fn offer(to: &mut Command) -> Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&path).any(|dir| dir.join("valgrind").is_file()) {
        return Ok(());
    }
    let Some(files) = unpacked()? else {
        return Ok(());
    };
    let program = find_program(&files, "valgrind")?;
    let directory = program.parent().map(Path::to_path_buf);
    let path = directory.into_iter().chain(env::split_paths(&path));
    to.env("PATH", env::join_paths(path)?);
    // It was built for the path where the package would install it.
    to.env("VALGRIND_LIB", files.join("usr/libexec/valgrind"));
    Ok(())
}

/// The unpacked package, or `None` where the machine's package mirrors do not have it.
fn unpacked() -> Result<Option<PathBuf>> {
    let dir = cache::root()?.join("valgrind");
    let files = dir.join("files");
    let _lock = Lock::wait(&dir.join("lock"), || {
        eprintln!("waiting for another process");
    })?;
    if files.exists() {
        return Ok(Some(files));
    }
    let apt = Apt::open(&dir.join("apt"), None)?;
    if !apt.offers("valgrind") {
        eprintln!("the package mirrors of this machine have no valgrind");
        return Ok(None);
    }
    let partial = dir.join("files.partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).context("cannot remove an interrupted download")?;
    }
    fs::create_dir_all(&partial).context("cannot create the directory for valgrind")?;
    apt.unpack(&["valgrind"], &partial)?;
    fs::rename(&partial, &files).context("cannot move valgrind into place")?;
    Ok(Some(files))
}
