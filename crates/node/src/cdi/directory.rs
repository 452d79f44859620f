//! The directory of spec files: writes our files, remembers to which pods they belong, and removes no others.
//!
//! Blocking file operations; callers on the runtime use a blocking thread.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpushare_core::PodUid;
use gpushare_daemon::files::{self, Links};
use parking_lot::Mutex;
use thiserror::Error;

use super::{Owner, Slot, SlotName};

pub(super) const PREFIX: &str = "gpushare.io-slot-";
const SUFFIX: &str = ".json";
/// Runtimes read every file whose name ends in .json or .yaml.
const UNFINISHED: &str = ".unfinished";
/// Many times the size of a record and the driver's edits for sixteen cards.
pub(super) const LARGEST: u64 = 4 << 20;

#[derive(Debug, Error)]
pub enum DirectoryError {
    #[error("cannot create the CDI directory {path}; check that the agent mounts it writable")]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot read the CDI directory {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the CDI spec {path}; check that the agent mounts its directory writable")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot remove the CDI spec {path}")]
    Remove { path: PathBuf, source: io::Error },
}

#[derive(Debug)]
pub struct SlotFiles {
    directory: PathBuf,
    /// Held during file operations, so that a file and its entry here agree.
    files: Mutex<BTreeMap<SlotName, File>>,
}

#[derive(Clone, Debug)]
struct File {
    pod: PodUid,
    /// `None` for files of an earlier run of the agent.
    written: Option<Instant>,
}

/// What an earlier run of the agent wrote about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EarlierAdmission {
    /// `namespace/name`, for people.
    pub name: String,
    /// The allocation record with which the pod was admitted.
    pub record: String,
}

impl SlotFiles {
    /// Takes over the files of an earlier run of the agent, and returns what they say about each pod.
    pub fn open(
        directory: &Path,
    ) -> Result<(Self, BTreeMap<PodUid, EarlierAdmission>), DirectoryError> {
        let path = || directory.to_owned();
        fs::create_dir_all(directory).map_err(|source| DirectoryError::Make {
            path: path(),
            source,
        })?;
        let mut files = BTreeMap::new();
        let mut records = BTreeMap::new();
        let read = |source| DirectoryError::Read {
            path: path(),
            source,
        };
        for entry in fs::read_dir(directory).map_err(read)? {
            let entry = entry.map_err(read)?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                continue;
            };
            if name.ends_with(UNFINISHED) {
                if let Err(error) = fs::remove_file(entry.path()) {
                    tracing::warn!(file = name, %error, "cannot remove an unfinished CDI spec, leaving it");
                }
                continue;
            }
            let text = match files::read(&entry.path(), Links::Refuse, LARGEST) {
                Ok(text) => text,
                Err(error) => {
                    tracing::warn!(file = name, %error, "ignoring what has the name of our CDI specs");
                    continue;
                }
            };
            if let Some(slot) = Slot::decode(&text) {
                let Owner {
                    pod,
                    pod_name: name,
                    record,
                    ..
                } = slot.owner;
                records.insert(pod.clone(), EarlierAdmission { name, record });
                files.insert(slot.name, File { pod, written: None });
            } else {
                tracing::warn!(file = name, "a CDI spec with our name is not one of ours");
            }
        }
        let files = Mutex::new(files);
        Ok((
            Self {
                directory: path(),
                files,
            },
            records,
        ))
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, name: &SlotName) -> PathBuf {
        self.directory.join(format!("{PREFIX}{name}{SUFFIX}"))
    }

    /// Writes the slot's file atomically; a file with the same content is left alone.
    pub fn write(&self, slot: &Slot) -> Result<(), DirectoryError> {
        let path = self.path(&slot.name);
        let text = slot.encode();
        let mut files = self.files.lock();
        let old = files::read(&path, Links::Refuse, LARGEST);
        if !old.is_ok_and(|old| old == text.as_bytes()) {
            // In the same directory: containerd does not notice a file that is moved in from another.
            let unfinished = self
                .directory
                .join(format!("{PREFIX}{}{UNFINISHED}", slot.name));
            files::replace(&path, &unfinished, text.as_bytes())
                .map_err(|source| DirectoryError::Write { path, source })?;
        }
        let file = File {
            pod: slot.owner.pod.clone(),
            written: Some(Instant::now()),
        };
        files.insert(slot.name.clone(), file);
        Ok(())
    }

    /// The pods that have files, with the age of the newest; `None` for files of an earlier run of the agent.
    pub fn pods(&self) -> BTreeMap<PodUid, Option<Duration>> {
        let mut pods: BTreeMap<PodUid, Option<Duration>> = BTreeMap::new();
        for file in self.files.lock().values() {
            let age = file.written.map(|written| written.elapsed());
            pods.entry(file.pod.clone())
                .and_modify(|newest| *newest = [*newest, age].into_iter().flatten().min())
                .or_insert(age);
        }
        pods
    }

    /// Removes the files of one pod, and no others. Returns how many there were.
    pub fn remove_pod(&self, pod: &PodUid) -> Result<usize, DirectoryError> {
        let mut files = self.files.lock();
        let names: Vec<SlotName> = files
            .iter()
            .filter(|(_, file)| file.pod == *pod)
            .map(|(name, _)| name.clone())
            .collect();
        for name in &names {
            remove(&self.path(name))?;
            files.remove(name);
        }
        Ok(names.len())
    }
}

fn remove(path: &Path) -> Result<(), DirectoryError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(DirectoryError::Remove {
            path: path.to_owned(),
            source: error,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
