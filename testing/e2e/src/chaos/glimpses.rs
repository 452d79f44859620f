//! Looks at the containers' processes from outside, again and again: what really runs, whatever Kubernetes reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gpushare_core::names::variable;
use gpushare_core::{CardId, PodUid};
use gpushare_rig::Rig;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::Shares;
use super::judge::{Glimpse, RunningContainer};

const EVERY: Duration = Duration::from_millis(100);

/// Looks from its start until it is dropped.
#[derive(Debug)]
pub struct Glimpses {
    seen: Arc<Mutex<Vec<Glimpse>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Glimpses {
    pub fn start(rig: &Rig) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut eye = Eye::of(rig);
        let (into, until) = (seen.clone(), stop.clone());
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                let glimpse = eye.look();
                into.lock().push(glimpse);
                thread::sleep(EVERY);
            }
        });
        Self {
            seen,
            stop,
            thread: Some(thread),
        }
    }

    pub fn all(&self) -> Vec<Glimpse> {
        self.assert_alive();
        self.seen.lock().clone()
    }

    /// What ran at the last look.
    pub fn last(&self) -> Vec<RunningContainer> {
        self.assert_alive();
        let seen = self.seen.lock();
        seen.last()
            .map(|last| last.running.clone())
            .unwrap_or_default()
    }

    /// Fails if the thread has ended: a check without new looks would always pass.
    fn assert_alive(&self) {
        let thread = self.thread.as_ref().expect("a thread until the end");
        assert!(!thread.is_finished(), "nobody looks any more");
    }
}

impl Drop for Glimpses {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Eye {
    /// The control group that contains all pods of the rig.
    root: PathBuf,
    /// The shares of containers whose program has started.
    known: BTreeMap<String, Shares>,
}

impl Eye {
    fn of(rig: &Rig) -> Self {
        let group = format!("gpushare-rig-{}", rig.name());
        let roots =
            ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(|root| Path::new(root).join(&group));
        let root = roots.iter().find(|root| root.is_dir());
        Self {
            root: root.expect("the rig has a control group").clone(),
            known: BTreeMap::new(),
        }
    }

    fn look(&mut self) -> Glimpse {
        let at = Timestamp::now().as_millisecond();
        let mut groups = Vec::new();
        containers(&self.root, None, &mut groups);
        let mut running = Vec::new();
        for (pod, container, process) in groups {
            if let Some(shares) = self.shares(&container, &process) {
                running.push(RunningContainer {
                    pod: PodUid::new(pod),
                    container,
                    shares,
                });
            }
        }
        Glimpse { at, running }
    }

    /// The container's shares of cards, according to its own environment. `None` for a container without cards, and
    /// until its program has started.
    fn shares(&mut self, container: &str, process: &str) -> Option<Shares> {
        if let Some(known) = self.known.get(container) {
            return Some(known.clone());
        }
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let shares = parse(&String::from_utf8_lossy(&environment))?;
        self.known.insert(container.to_owned(), shares.clone());
        Some(shares)
    }
}

/// Every container's control group that has a process: the pod's uid, the container's id, and one of its processes.
fn containers(group: &Path, pod: Option<&str>, found: &mut Vec<(String, String, String)>) {
    // A group can disappear while we read it.
    let Ok(entries) = fs::read_dir(group) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        match pod {
            Some(pod) => {
                let processes = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
                if let Some(process) = processes.lines().next() {
                    found.push((pod.to_owned(), name.into_owned(), process.to_owned()));
                }
            }
            None => containers(&path, name.strip_prefix("pod"), found),
        }
    }
}

/// Reads the variables that a container with cards has.
fn parse(environment: &str) -> Option<Shares> {
    let value = |name: &str| {
        let mut variables = environment.split('\0');
        variables.find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
    };
    let cards: Vec<&str> = value(variable::CARDS)?.split(',').collect();
    let memory: Vec<u64> = value(variable::MEMORY_MIB)?
        .split(',')
        .filter_map(|mib| mib.parse().ok())
        .collect();
    let of = |number: usize| memory.get(number).or(memory.first()).copied();
    let shares = cards.iter().enumerate();
    shares
        .map(|(number, card)| Some((CardId::new(*card), of(number)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_says_what_it_has() {
        let one = parse("PATH=/bin\0GPUSHARE_CARDS=GPU-a,GPU-b\0GPUSHARE_MEMORY_MIB=2048\0");
        let same = Shares::from([(CardId::new("GPU-a"), 2048), (CardId::new("GPU-b"), 2048)]);
        assert_eq!(one, Some(same));
        let other = parse("GPUSHARE_CARDS=GPU-a,GPU-b\0GPUSHARE_MEMORY_MIB=1024,512");
        let each = Shares::from([(CardId::new("GPU-a"), 1024), (CardId::new("GPU-b"), 512)]);
        assert_eq!(other, Some(each));
        assert_eq!(parse("PATH=/bin"), None);
    }
}
