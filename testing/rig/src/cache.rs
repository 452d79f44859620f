//! The cache outside the checkout: where it is, and how two processes share it safely.
//!
//! A finished item is a directory that appears by one rename, so a reader sees all of it or nothing.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The directory for everything that is built once and used often.
///
/// `$GPUSHARE_CACHE`, else `$XDG_CACHE_HOME/gpushare`, else `~/.cache/gpushare`.
pub fn root() -> Result<PathBuf> {
    let from = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty());
    let root = if let Some(cache) = from("GPUSHARE_CACHE") {
        PathBuf::from(cache)
    } else if let Some(cache) = from("XDG_CACHE_HOME") {
        PathBuf::from(cache).join("gpushare")
    } else if let Some(home) = from("HOME") {
        PathBuf::from(home).join(".cache/gpushare")
    } else {
        bail!("no cache directory: set GPUSHARE_CACHE (or HOME) to a directory with 5 GB free");
    };
    fs::create_dir_all(&root)
        .with_context(|| format!("cannot create the cache directory {}", root.display()))?;
    root.canonicalize()
        .with_context(|| format!("cannot resolve {}", root.display()))
}

/// An exclusive lock on a file, held until dropped or until the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, waiting for its holder. `waiting` is called once if there is one.
    pub fn wait(path: &Path, waiting: impl FnOnce()) -> Result<Self> {
        if let Some(lock) = Self::try_take(path)? {
            return Ok(lock);
        }
        waiting();
        let file = open(path)?;
        file.lock()
            .with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(Self { _file: file })
    }

    /// Whether another process holds the lock. Creates nothing: its owner may be removing the file now.
    pub fn is_held(path: &Path) -> Result<bool> {
        let file = match File::options().write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot open {}", path.display()));
            }
        };
        match file.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    /// Takes the lock if no other process holds it.
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }
}

fn open(path: &Path) -> Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
    }
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("cannot open the lock file {}", path.display()))
}

/// Makes the directory `item`: fills a directory next to it, and renames that.
///
/// The caller holds the lock that covers `item`. What an interrupted run left is passed to `fill`
/// again: Go then links only what is missing.
pub(crate) fn fill_once(item: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if item.exists() {
        return Ok(());
    }
    let mut partial = item.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    fs::create_dir_all(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    fill(&partial)?;
    fs::rename(&partial, item)
        .with_context(|| format!("cannot move {} into place", partial.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_excludes_others_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/lock");
        let first = Lock::try_take(&path).unwrap();
        assert!(first.is_some());
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(first);
        assert!(Lock::try_take(&path).unwrap().is_some());
    }

    #[test]
    fn looking_at_a_lock_does_not_create_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rig/lock");
        assert!(!Lock::is_held(&path).unwrap());
        assert!(!path.parent().unwrap().exists());
        let lock = Lock::try_take(&path).unwrap();
        assert!(Lock::is_held(&path).unwrap());
        drop(lock);
        assert!(!Lock::is_held(&path).unwrap());
    }

    #[test]
    fn an_item_appears_only_when_complete_and_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let item = dir.path().join("tool-1.2.3");
        let failed = fill_once(&item, |partial| {
            fs::write(partial.join("half"), "")?;
            bail!("interrupted")
        });
        assert!(failed.is_err());
        assert!(!item.exists());
        fill_once(&item, |partial| Ok(fs::write(partial.join("rest"), "")?)).unwrap();
        assert!(item.join("half").exists() && item.join("rest").exists());
        fill_once(&item, |_| bail!("must not be called again")).unwrap();
    }
}
