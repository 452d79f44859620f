//! Puts the built library where a test wants it.
//!
//! Cargo builds the shared library next to the test executables of this crate and of every crate
//! that depends on it.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use thiserror::Error;

use crate::hardware::{Hardware, HardwareError};
use crate::{HARDWARE_FILE, LIBRARY_NAME};

/// The file that Cargo makes of this crate.
const ARTEFACT: &str = "libgpushare_fake_nvml.so";

/// A library that cannot be put in place.
#[derive(Debug, Error)]
pub enum InstallError {
    #[error("{ARTEFACT} is not in {searched:?}; build it with `cargo build -p gpushare-fake-nvml`")]
    NotBuilt { searched: Vec<PathBuf> },
    #[error("cannot tell where this executable is, and so not where the library is")]
    NoExecutable { source: io::Error },
    #[error("cannot copy {from} to {to}; check the directory")]
    Copy {
        from: PathBuf,
        to: PathBuf,
        source: io::Error,
    },
    #[error("cannot write the hardware of the installed library")]
    Hardware(#[from] HardwareError),
}

/// A copy of the library with hardware of its own.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The directory, for `LD_LIBRARY_PATH`.
    pub directory: PathBuf,
    /// The library in it, for `dlopen`.
    pub library: PathBuf,
    /// Its hardware file.
    pub hardware: PathBuf,
}

/// The library as Cargo built it.
pub fn library_path() -> Result<PathBuf, InstallError> {
    let executable = env::current_exe().map_err(|source| InstallError::NoExecutable { source })?;
    let searched: Vec<PathBuf> = executable
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|directory| [directory.join("deps"), directory.to_owned()])
        .map(|directory| directory.join(ARTEFACT))
        .collect();
    match searched.iter().find(|path| path.exists()) {
        Some(path) => Ok(path.clone()),
        None => Err(InstallError::NotBuilt { searched }),
    }
}

/// Copies the library into an existing directory as `libnvidia-ml.so.1`, with this hardware beside it.
///
/// It is a copy and not a link because the dynamic linker loads a file once per process: two tests
/// in one process need two files to have two machines.
pub fn install(directory: &Path, hardware: &Hardware) -> Result<Installation, InstallError> {
    let from = library_path()?;
    let library = directory.join(LIBRARY_NAME);
    fs::copy(&from, &library).map_err(|source| InstallError::Copy {
        from,
        to: library.clone(),
        source,
    })?;
    let file = directory.join(HARDWARE_FILE);
    hardware.save(&file)?;
    Ok(Installation {
        directory: directory.to_owned(),
        library,
        hardware: file,
    })
}
