//! What the machine must offer before a rig can start, checked before anything is done.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail, ensure};

use crate::exec;

/// Programs that the scripts use, each with its Debian package.
const TOOLS: [(&str, &str); 9] = [
    ("bash", "bash"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("flock", "util-linux"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("find", "findutils"),
    ("sleep", "coreutils"),
];

/// Checks everything at once, so that one run names everything that is missing.
pub fn check() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "a real cluster needs root (mounts, namespaces, control groups): run this as root"
    );
    let mut problems = Vec::new();
    for (tool, package) in TOOLS {
        if !exec::installed(tool) {
            problems.push(format!("`{tool}` is missing: apt-get install {package}"));
        }
    }
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.split_whitespace().any(|name| name == "overlay") {
        problems.push("the kernel has no overlay file system: modprobe overlay".into());
    }
    let root = Path::new("/sys/fs/cgroup");
    if !root.join("cgroup.procs").exists() && !root.join("memory/cgroup.procs").exists() {
        problems.push("no control groups are mounted at /sys/fs/cgroup".into());
    }
    if !problems.is_empty() {
        bail!(
            "this machine cannot run a real cluster yet:\n  {}",
            problems.join("\n  ")
        );
    }
    Ok(())
}
