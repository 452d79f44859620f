//! Which pods have processes according to the kernel: from the control groups that the kubelet creates for its pods.
//!
//! A pod object can be deleted while its containers run, and clients other than its kubelet can write its phase. Only
//! the kernel knows when the last process has ended. Read-only; for cgroup v1 and v2, both cgroup drivers of the
//! kubelet, and any cgroup root. Blocking file operations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gpushare_core::PodUid;
use thiserror::Error;

/// The file at the root of cgroup v2.
const CONTROLLERS: &str = "cgroup.controllers";
/// The file of a cgroup v2 group that shows whether it, or a group below it, has processes.
const EVENTS: &str = "cgroup.events";
/// The cgroup v1 hierarchy that counts processes, and the file with a group's count, including groups below it. The
/// lists of processes omit those outside the agent's pid namespace; the count does not.
const PIDS: &str = "pids";
const COUNT: &str = "pids.current";
/// Reading a group that is being removed fails with this.
const NO_SUCH_DEVICE: i32 = 19;
/// How deep the kubelet's own group may be: only a guard against loops; real nodes stay far below it.
const DEPTH: u32 = 16;

#[derive(Debug, Error)]
pub enum CgroupError {
    #[error(
        "{root} is not a cgroup filesystem: mount the host's /sys/fs/cgroup read-only into the agent, and name the mount \
         with --cgroup-root"
    )]
    NoFilesystem { root: PathBuf },
    #[error(
        "no control group `kubepods` is below {root}, so nobody can tell when containers have ended: mount the host's \
         /sys/fs/cgroup read-only into the agent, name the mount with --cgroup-root, and leave the kubelet's \
         cgroupsPerQOS on"
    )]
    NoPods { root: PathBuf },
    #[error("cannot read the control group {path}")]
    Read { path: PathBuf, source: io::Error },
}

/// The control groups of a node.
#[derive(Clone, Debug)]
pub struct Cgroups {
    root: PathBuf,
}

impl Cgroups {
    /// `root` is where the host's /sys/fs/cgroup is.
    pub fn open(root: &Path) -> Result<Self, CgroupError> {
        let cgroups = Self {
            root: root.to_owned(),
        };
        cgroups.hierarchy().map(|_| cgroups)
    }

    /// The given pods that have a process.
    pub fn alive(&self, pods: &BTreeSet<PodUid>) -> Result<BTreeSet<PodUid>, CgroupError> {
        let wanted: BTreeMap<String, &PodUid> = pods
            .iter()
            .flat_map(|pod| {
                let uid = pod.as_str();
                // systemd does not allow dashes in this part of a slice's name.
                let slice = format!("pod{}.slice", uid.replace('-', "_"));
                [(format!("pod{uid}"), pod), (slice, pod)]
            })
            .collect();
        let mut alive = BTreeSet::new();
        for (name, group) in self.groups_of_pods()? {
            if let Some(pod) = wanted.get(&name)
                && !alive.contains(*pod)
                && populated(&group)?
            {
                alive.insert((*pod).clone());
            }
        }
        Ok(alive)
    }

    /// The groups of all pods, each with its name as [`Self::alive`] looks it up. Groups inside them are ignored: the
    /// pod itself may have chosen their names.
    fn groups_of_pods(&self) -> Result<Vec<(String, PathBuf)>, CgroupError> {
        let mut kubepods = Vec::new();
        find_kubepods(&self.hierarchy()?, DEPTH, &mut kubepods)?;
        if kubepods.is_empty() {
            return Err(CgroupError::NoPods {
                root: self.root.clone(),
            });
        }
        let mut groups = Vec::new();
        for top in kubepods {
            for (name, group) in children(&top)? {
                if is_quality_of_service(&name) {
                    groups.extend(children(&group)?);
                } else {
                    groups.push((name, group));
                }
            }
        }
        let named = groups.into_iter().map(|(name, group)| {
            let slice = name.strip_suffix(".slice").and(name.rsplit_once("-pod"));
            let short = slice.map(|(_, uid)| format!("pod{uid}"));
            (short.unwrap_or(name), group)
        });
        Ok(named.collect())
    }

    /// The one hierarchy of cgroup v2, or the one of v1 that counts processes.
    fn hierarchy(&self) -> Result<PathBuf, CgroupError> {
        let pids = self.root.join(PIDS);
        if self.root.join(CONTROLLERS).exists() {
            Ok(self.root.clone())
        } else if pids.join("cgroup.procs").exists() {
            Ok(pids)
        } else {
            Err(CgroupError::NoFilesystem {
                root: self.root.clone(),
            })
        }
    }
}

/// The kubelet names the group of all pods `kubepods`, below its cgroup root.
fn is_kubepods(name: &str) -> bool {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    name == "kubepods" || name.ends_with("-kubepods")
}

fn is_quality_of_service(name: &str) -> bool {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let class = name.rsplit_once('-').map_or(name, |(_, class)| class);
    matches!(class, "burstable" | "besteffort" | "guaranteed")
}

fn find_kubepods(group: &Path, depth: u32, found: &mut Vec<PathBuf>) -> Result<(), CgroupError> {
    for (name, below) in children(group)? {
        if is_kubepods(&name) {
            found.push(below);
        } else if depth > 0 {
            find_kubepods(&below, depth - 1, found)?;
        }
    }
    Ok(())
}

/// Whether the group, or one below it, has a process. If the file cannot be understood, it counts as having one.
fn populated(group: &Path) -> Result<bool, CgroupError> {
    if let Some(events) = read(&group.join(EVENTS))? {
        return Ok(!events.lines().any(|line| line == "populated 0"));
    }
    let count = read(&group.join(COUNT))?;
    Ok(count.is_some_and(|count| count.trim() != "0"))
}

/// The text of a file; `None` if it is gone.
fn read(path: &Path) -> Result<Option<String>, CgroupError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(source) => Err(CgroupError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// The groups directly below, in the order of their names; none when the group is gone.
fn children(group: &Path) -> Result<Vec<(String, PathBuf)>, CgroupError> {
    let failed = |source| CgroupError::Read {
        path: group.to_owned(),
        source,
    };
    let entries = match fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut groups = Vec::new();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(failed(error)),
        };
        // Symbolic links are aliases of hierarchies.
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(name) = entry.file_name().into_string()
        {
            groups.push((name, entry.path()));
        }
    }
    groups.sort();
    Ok(groups)
}

/// Groups can disappear at any time.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NO_SUCH_DEVICE)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const UID: &str = "0b0a5d3c-2f51-4a4c-9d0b-3c6f0f6e2a11";

    fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = TempDir::new().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn is_alive(files: &[(&str, &str)]) -> bool {
        let root = tree(files);
        let cgroups = Cgroups::open(root.path()).unwrap();
        let pods = BTreeSet::from([PodUid::new(UID), PodUid::new("other")]);
        let alive = cgroups.alive(&pods).unwrap();
        assert!(!alive.contains("other"));
        alive.contains(UID)
    }

    #[test]
    fn a_pod_is_alive_while_its_group_is_populated_in_cgroup_v2() {
        let slice = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b0a5d3c_2f51_4a4c_9d0b_3c6f0f6e2a11.slice";
        for (events, alive) in [
            ("populated 1\nfrozen 0\n", true),
            ("populated 0\nfrozen 0\n", false),
        ] {
            for group in [
                format!("kubepods/besteffort/pod{UID}"),
                format!("kubepods/pod{UID}"),
                slice.to_owned(),
                format!("kubelet.slice/kubelet-{slice}"),
            ] {
                let files = [
                    ("cgroup.controllers", ""),
                    (&format!("{group}/cgroup.events"), events),
                ];
                assert_eq!(is_alive(&files), alive, "{group}");
            }
        }
    }

    #[test]
    fn a_pod_is_alive_while_processes_are_counted_in_its_group_in_cgroup_v1() {
        for (count, alive) in [("3\n", true), ("0\n", false)] {
            let group = format!("pids/rig-1/kubepods/burstable/pod{UID}");
            let files = [
                ("memory/cgroup.procs", "1\n"),
                ("pids/cgroup.procs", "1\n"),
                (&format!("{group}/cgroup.procs"), ""),
                (&format!("{group}/pids.current"), count),
            ];
            assert_eq!(is_alive(&files), alive);
        }
    }

    #[test]
    fn a_pod_without_a_group_has_ended() {
        assert!(!is_alive(&[
            ("cgroup.controllers", ""),
            ("kubepods/cgroup.events", ""),
        ]));
    }

    #[test]
    fn a_pod_cannot_pretend_that_another_lives() {
        let inside =
            format!("kubepods/burstable/podliar/container/kubepods/pod{UID}/cgroup.events");
        assert!(!is_alive(&[
            ("cgroup.controllers", ""),
            (&inside, "populated 1\n"),
        ]));
    }

    #[test]
    fn where_nothing_can_be_seen_that_is_an_error_and_not_the_end_of_all_pods() {
        let nothing = TempDir::new().unwrap();
        let error = Cgroups::open(nothing.path()).unwrap_err().to_string();
        assert!(error.contains("is not a cgroup filesystem"), "{error}");
        let missing = nothing.path().join("missing");
        Cgroups::open(&missing).unwrap_err();

        let own = tree(&[("cgroup.controllers", ""), ("init/cgroup.events", "")]);
        let cgroups = Cgroups::open(own.path()).unwrap();
        let error = cgroups.alive(&BTreeSet::from([PodUid::new(UID)]));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no control group `kubepods`"), "{error}");
    }
}
