//! Where running rigs are recorded on the host, and how the remains of dead ones are removed.
//!
//! Each rig has a directory `rigs/NAME` in the cache. Its supervisor holds the lock file in it
//! for as long as it lives and removes the directory at its end. Only a supervisor that was
//! killed itself leaves a directory, and empty control groups; [`sweep`] removes both.

use std::cmp::Reverse;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

use crate::cache::{self, Lock};

/// How many directories of old logs stay in the cache.
const KEPT_LOGS: usize = 40;

/// How long to wait for the kernel to let go of a dead rig's control groups.
const SWEEP_DEADLINE: Duration = Duration::from_secs(10);

/// The directory with one entry per rig.
pub(crate) fn rigs() -> Result<PathBuf> {
    Ok(cache::root()?.join("rigs"))
}

/// Held while a rig is being recorded, so that a sweep never sees a half-recorded one.
pub(crate) fn lock() -> Result<Lock> {
    Lock::wait(&cache::root()?.join("rigs.lock"), || ())
}

/// The control group of a rig, in every hierarchy.
pub(crate) fn cgroup(name: &str) -> String {
    format!("gpushare-rig-{name}")
}

/// Whether a rig of that name is recorded and its supervisor is alive.
pub fn is_running(name: &str) -> Result<bool> {
    Lock::is_held(&rigs()?.join(name).join("lock"))
}

/// Removes what dead rigs left and returns their names. Running rigs are not touched.
pub fn sweep() -> Result<Vec<String>> {
    let _lock = lock()?;
    sweep_locked()
}

/// [`sweep`] for a caller that holds [`lock`].
pub(crate) fn sweep_locked() -> Result<Vec<String>> {
    let mut swept = Vec::new();
    for dir in directories(&rigs()?) {
        let Some(name) = dir.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if is_running(name)? {
            continue;
        }
        remove_cgroups(&cgroup(name));
        match fs::remove_dir_all(&dir) {
            Ok(()) => swept.push(name.to_owned()),
            // Its supervisor has just removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot remove {}", dir.display()));
            }
        }
    }
    Ok(swept)
}

fn remove_cgroups(cgroup: &str) {
    let root = Path::new("/sys/fs/cgroup");
    let mut hierarchies = directories(root);
    hierarchies.push(root.to_owned());
    let deadline = Instant::now() + SWEEP_DEADLINE;
    for hierarchy in hierarchies {
        let dir = hierarchy.join(cgroup);
        while dir.exists() && Instant::now() < deadline {
            if remove_tree_of_cgroups(&dir).is_err() {
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Control groups are removed leaf by leaf; their files cannot be deleted and need not be.
fn remove_tree_of_cgroups(dir: &Path) -> std::io::Result<()> {
    for child in directories(dir) {
        remove_tree_of_cgroups(&child)?;
    }
    fs::remove_dir(dir)
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries
        .flatten()
        .filter(is_dir)
        .map(|entry| entry.path())
        .collect()
}

/// Where a rig logs unless its caller says otherwise. The oldest logs are removed.
pub(crate) fn default_log_dir(name: &str) -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("GPUSHARE_RIG_LOGS").filter(|dir| !dir.is_empty()) {
        return Ok(PathBuf::from(dir).join(name));
    }
    let logs = cache::root()?.join("logs");
    let mut old = directories(&logs);
    newest_first(&mut old, |dir| {
        fs::metadata(dir)
            .and_then(|data| data.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH)
    });
    for dir in old.iter().skip(KEPT_LOGS) {
        // Another process may be tidying up as well.
        let _ = fs::remove_dir_all(dir);
    }
    Ok(logs.join(name))
}

/// Looks at each directory once: another process may change or remove it meanwhile, and directories cannot be sorted by
/// times that change.
fn newest_first(directories: &mut [PathBuf], changed: impl Fn(&Path) -> SystemTime) {
    directories.sort_by_cached_key(|dir| Reverse(changed(dir)));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    #[test]
    fn directories_that_change_meanwhile_are_looked_at_once() {
        let looks = Cell::new(0);
        let mut all: Vec<PathBuf> = (0..50).map(|number| format!("{number}").into()).collect();
        newest_first(&mut all, |_| {
            looks.set(looks.get() + 1);
            SystemTime::UNIX_EPOCH + Duration::from_secs(looks.get())
        });
        assert_eq!(looks.get(), 50);
        assert_eq!(all.first().unwrap(), Path::new("49"));
    }
}
