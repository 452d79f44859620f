//! NVIDIA's own nvidia-smi from Debian's non-free packages: a real client for the fake driver.
//! Unpacked into the cache, so it needs no root and no graphics card.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use gpushare_rig::apt::{Apt, find_program};
use gpushare_rig::cache::{self, Lock};

/// The path of nvidia-smi, or `None` where the machine's package mirrors do not have it.
pub(crate) fn ensure() -> Result<Option<PathBuf>> {
    let dir = cache::root()?.join("nvidia-smi");
    let files = dir.join("files");
    let _lock = Lock::wait(&dir.join("lock"), || {
        eprintln!("waiting for another process");
    })?;
    if let Ok(program) = find_program(&files, "nvidia-smi") {
        return Ok(Some(program));
    }
    let apt = Apt::open(&dir.join("apt"), Some("non-free"))?;
    if !apt.offers("nvidia-smi") {
        println!("the package mirrors of this machine have no nvidia-smi in non-free");
        return Ok(None);
    }
    let partial = dir.join("files.partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).context("cannot remove an interrupted download")?;
    }
    fs::create_dir_all(&partial).context("cannot create the directory for nvidia-smi")?;
    // Without its dependencies: the fake driver replaces its libraries.
    apt.unpack(&["nvidia-smi"], &partial)?;
    fs::rename(&partial, &files).context("cannot move nvidia-smi into place")?;
    find_program(&files, "nvidia-smi").map(Some)
}
