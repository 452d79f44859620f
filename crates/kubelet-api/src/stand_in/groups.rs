//! Control groups as a kernel shows them: one for each pod, populated while the pod has processes.

use std::path::{Path, PathBuf};
use std::{fs, io};

#[derive(Debug)]
pub(super) struct Groups {
    /// The group of all pods.
    pods: PathBuf,
}

impl Groups {
    pub(super) fn make(root: &Path) -> io::Result<Self> {
        let pods = root.join("kubepods");
        fs::create_dir_all(&pods)?;
        fs::write(root.join("cgroup.controllers"), "pids\n")?;
        Ok(Self { pods })
    }

    /// The pod's sandbox runs.
    pub(super) fn add(&self, uid: &str) -> Result<(), String> {
        let group = self.group(uid);
        fs::create_dir_all(&group)
            .and_then(|()| fs::write(group.join("cgroup.events"), "populated 1\nfrozen 0\n"))
            .map_err(|error| format!("cannot make the control group {}: {error}", group.display()))
    }

    /// The pod's last process has ended.
    pub(super) fn remove(&self, uid: &str) {
        let group = self.group(uid);
        if let Err(error) = fs::remove_dir_all(&group) {
            tracing::debug!(%error, group = %group.display(), "a pod without a control group");
        }
    }

    fn group(&self, uid: &str) -> PathBuf {
        self.pods.join(format!("pod{uid}"))
    }
}
