//! Waiting for conditions, and looking for what a rig may have left on the host.

use std::fs;
use std::path::Path;

use gpushare_rig::{BUSYBOX, Options, Rig};
pub(crate) use gpushare_testkit::until_blocking as until;

pub(crate) fn start() -> Rig {
    Rig::start(Options::default()).expect("the cluster starts")
}

/// A pod that runs `script` in the busybox image.
pub(crate) fn pod(name: &str, script: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\n\
         spec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  - name: main\n    \
         image: {BUSYBOX}\n    imagePullPolicy: Never\n    command: [sh, -c, {script:?}]\n"
    )
}

pub(crate) fn phase(rig: &Rig, pod: &str) -> String {
    rig.kubectl(&["get", "pod", pod, "--output=jsonpath={.status.phase}"])
        .unwrap_or_default()
}

pub(crate) fn wait_running(rig: &Rig, pod: &str) {
    until(&format!("pod {pod} to run"), || {
        phase(rig, pod) == "Running"
    });
}

/// What identifies a rig's remains on the host, taken while it lives.
pub(crate) struct Traces {
    name: String,
    network: String,
    mounts: String,
}

impl Traces {
    pub(crate) fn of(name: &str, pid: i32) -> Self {
        Self {
            name: name.to_owned(),
            network: namespace(&pid.to_string()).expect("the rig lives"),
            mounts: host_mounts(),
        }
    }

    /// Control group directories of the rig in any hierarchy.
    pub(crate) fn cgroups(&self) -> Vec<String> {
        let own = format!("gpushare-rig-{}", self.name);
        let mut found = Vec::new();
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(root)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for hierarchy in hierarchies.chain([root.to_owned()]) {
            if hierarchy.join(&own).exists() {
                found.push(hierarchy.display().to_string());
            }
        }
        found
    }

    /// Processes on the host that are in the rig's network.
    pub(crate) fn processes(&self) -> Vec<String> {
        let pids = fs::read_dir("/proc").unwrap();
        let pids = pids.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        pids.filter(|pid| namespace(pid).is_some_and(|network| network == self.network))
            .collect()
    }

    pub(crate) fn wait_without_processes(&self) {
        until("the rig's processes to be gone", || {
            self.processes().is_empty()
        });
    }

    pub(crate) fn wait_gone(&self) {
        self.wait_without_processes();
        until("the rig's control groups to be gone", || {
            self.cgroups().is_empty()
        });
        assert_eq!(host_mounts(), self.mounts, "the host's mounts have changed");
    }
}

fn namespace(pid: &str) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

fn host_mounts() -> String {
    fs::read_to_string("/proc/self/mounts").expect("the host's mounts can be read")
}
