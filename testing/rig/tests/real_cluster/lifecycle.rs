//! How a rig begins and, above all, how it ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use gpushare_rig::{Options, Rig, sweep};

use crate::support::{Traces, pod, start, until, wait_running};

/// A rig owned by another process, which the test may kill.
struct Held {
    owner: Child,
    name: String,
    pid: i32,
}

impl Held {
    fn start() -> Self {
        let mut owner = Command::new(env!("CARGO_BIN_EXE_rig-hold"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("rig-hold starts");
        let mut line = String::new();
        let mut output = BufReader::new(owner.stdout.take().expect("stdout is a pipe"));
        output.read_line(&mut line).expect("rig-hold reports");
        let (name, pid) = line.trim().split_once(' ').expect("a name and a pid");
        Self {
            name: name.to_owned(),
            pid: pid.parse().expect("a pid"),
            owner,
        }
    }

    fn kill_owner(&mut self) {
        self.owner.kill().expect("the owner can be killed");
        self.owner.wait().expect("the owner can be waited for");
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.owner.kill();
        let _ = self.owner.wait();
    }
}

fn kill(pid: i32) {
    let status = Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status();
    assert!(
        status.expect("kill runs").success(),
        "{pid} could not be killed"
    );
}

fn parent_of(pid: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .expect("a parent");
    parent.trim().parse().expect("a pid")
}

/// A rig in which a pod runs.
fn with_a_sleeper() -> (Rig, Traces) {
    let rig = start();
    rig.apply(&pod("sleeper", "sleep 1000000")).unwrap();
    wait_running(&rig, "sleeper");
    let traces = Traces::of(rig.name(), rig.pid());
    (rig, traces)
}

#[test]
fn a_stopped_rig_leaves_nothing_on_the_host() {
    let (rig, traces) = with_a_sleeper();
    assert!(!traces.processes().is_empty() && !traces.cgroups().is_empty());
    let logs = rig.logs();
    rig.stop().unwrap();
    assert!(
        traces.processes().is_empty(),
        "left: {:?}",
        traces.processes()
    );
    assert!(traces.cgroups().is_empty(), "left: {:?}", traces.cgroups());
    traces.wait_gone();
    assert!(logs.join("kubelet.log").exists(), "the logs are kept");
}

#[test]
fn a_rig_whose_init_is_killed_is_gone_and_its_handle_says_so() {
    let (rig, traces) = with_a_sleeper();
    kill(rig.pid());
    traces.wait_gone();
    let error = rig.kubectl(&["get", "pods"]).unwrap_err();
    assert!(format!("{error:#}").contains("has ended"), "{error:#}");
}

#[test]
fn a_rig_dies_cleanly_with_an_owner_that_is_killed() {
    let mut held = Held::start();
    let traces = Traces::of(&held.name, held.pid);
    held.kill_owner();
    traces.wait_gone();
}

#[test]
fn a_sweep_removes_what_a_killed_supervisor_left_and_nothing_of_the_living() {
    let alive = start();
    let mut held = Held::start();
    let traces = Traces::of(&held.name, held.pid);
    let supervisor = parent_of(parent_of(held.pid));
    kill(supervisor);
    traces.wait_without_processes();
    assert!(
        !traces.cgroups().is_empty(),
        "nobody was left to remove them"
    );
    held.kill_owner();

    let swept = sweep().unwrap();
    assert!(swept.contains(&held.name), "{swept:?}");
    assert!(!swept.contains(&alive.name().to_owned()), "{swept:?}");
    traces.wait_gone();
    alive.kubectl(&["get", "nodes"]).unwrap();
}

#[test]
fn two_rigs_start_at_once_and_the_end_of_one_does_not_disturb_the_other() {
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(start);
        let second = scope.spawn(start);
        (first.join().unwrap(), second.join().unwrap())
    });
    for rig in [&first, &second] {
        rig.apply(&pod("same-name", "sleep 1000000")).unwrap();
        wait_running(rig, "same-name");
    }
    let traces = Traces::of(first.name(), first.pid());
    kill(first.pid());
    traces.wait_gone();
    second
        .kubectl(&["exec", "same-name", "--", "true"])
        .unwrap();
    assert_eq!(second.ended(), None);
}

#[test]
fn a_second_rig_of_the_same_name_is_refused_and_the_first_goes_on() {
    let first = start();
    let options = Options {
        name: Some(first.name().to_owned()),
        ..Options::default()
    };
    let error = Rig::start(options).unwrap_err().to_string();
    assert!(error.contains("already running"), "{error}");
    first.kubectl(&["get", "nodes"]).unwrap();
}

#[test]
fn a_component_that_cannot_start_is_named_with_the_end_of_its_log() {
    let options = Options {
        apiserver_extra: vec!["--no-such-flag".into()],
        ..Options::default()
    };
    let error = Rig::start(options).unwrap_err().to_string();
    assert!(error.contains("kube-apiserver"), "{error}");
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
}

#[test]
fn a_component_that_dies_ends_the_rig_with_its_name() {
    let rig = start();
    rig.inside("sh")
        .args(["-c", "kill -KILL $(cat /run/rig/pids/etcd)"])
        .status()
        .unwrap();
    let reason = until("the rig to end", || rig.ended());
    assert!(reason.starts_with("etcd ended"), "{reason}");
}
