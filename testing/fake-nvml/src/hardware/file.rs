//! The hardware file on disk: parse and check, replace atomically, change under a lock.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use super::Hardware;

/// Room for a UUID or a model in NVML's largest text buffers, without the final zero.
const TEXT_LIMIT: usize = 63;

/// Keeps the temporary files of two threads apart.
static SAVES: AtomicU64 = AtomicU64::new(0);

/// A hardware file that cannot be used.
#[derive(Debug, Error)]
pub enum HardwareError {
    #[error("cannot read the hardware file {path}; check that it exists and is readable")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the hardware file {path}; check its directory")]
    Write { path: PathBuf, source: io::Error },
    #[error("the hardware file is not valid JSON for this version")]
    Parse { source: serde_json::Error },
    #[error("card {position} of the hardware file has {problem}; {remedy}")]
    Card {
        position: usize,
        problem: String,
        remedy: &'static str,
    },
}

impl Hardware {
    /// Reads and checks a hardware file.
    pub fn load(path: &Path) -> Result<Self, HardwareError> {
        let bytes = fs::read(path).map_err(|source| HardwareError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&bytes)
    }

    /// Checks the content of a hardware file.
    pub fn parse(bytes: &[u8]) -> Result<Self, HardwareError> {
        let hardware: Self =
            serde_json::from_slice(bytes).map_err(|source| HardwareError::Parse { source })?;
        hardware.check()?;
        Ok(hardware)
    }

    /// Replaces a hardware file in one step, so that no reader sees half of it.
    pub fn save(&self, path: &Path) -> Result<(), HardwareError> {
        self.check()?;
        let text =
            serde_json::to_string_pretty(self).map_err(|source| HardwareError::Parse { source })?;
        let turn = SAVES.fetch_add(1, Ordering::Relaxed);
        let temporary = beside(path, &format!(".{}.{turn}.new", std::process::id()));
        write_then_rename(&temporary, path, &text).map_err(|source| HardwareError::Write {
            path: path.to_owned(),
            source,
        })
    }

    fn check(&self) -> Result<(), HardwareError> {
        let mut seen = BTreeSet::new();
        for (position, card) in self.cards.iter().enumerate() {
            let refuse = |problem: String, remedy| {
                Err(HardwareError::Card {
                    position,
                    problem,
                    remedy,
                })
            };
            for text in [&card.uuid, &card.name] {
                if text.is_empty() || text.len() > TEXT_LIMIT || text.contains('\0') {
                    let problem = format!("the text {text:?}, which no NVML client can read");
                    return refuse(problem, "give uuid and name 1 to 63 bytes without NUL");
                }
            }
            if !seen.insert(&card.uuid) {
                let problem = format!("the UUID {} of an earlier card", card.uuid);
                return refuse(problem, "give each card its own UUID");
            }
            if card.pci_address().is_none() {
                let problem = format!("the bus id {:?}", card.pci_bus_id);
                return refuse(problem, "write it as 00000000:01:00.0, in hexadecimal");
            }
        }
        Ok(())
    }
}

/// Changes a hardware file while other processes may change it too.
pub fn update(path: &Path, change: impl FnOnce(&mut Hardware)) -> Result<(), HardwareError> {
    let failed = |source| HardwareError::Write {
        path: path.to_owned(),
        source,
    };
    // The file itself is replaced by each save, so the lock needs a file that stays.
    let lock = File::create(beside(path, ".lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut hardware = Hardware::load(path)?;
    change(&mut hardware);
    hardware.save(path)
}

fn write_then_rename(temporary: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(text.as_bytes())?;
    fs::rename(temporary, path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
