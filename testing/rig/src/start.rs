//! Starting a rig: the state directory, the supervisor process, and its report until READY.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::binaries::Binaries;
use crate::cache::Lock;
use crate::options::Options;
use crate::{config, exec, state};

const SUPERVISOR: &str = include_str!("../assets/supervisor.sh");
const INIT: &str = include_str!("../assets/init.sh");

/// How long the rig may take to start before it gives up and names the component it waits for. A
/// start takes 5 seconds on an idle machine with 2 cores; a busy one may need many times that.
const START_DEADLINE: Duration = Duration::from_mins(4);

/// A started supervisor. The rig lives until `lifeline` closes.
#[derive(Debug)]
pub(crate) struct SupervisorHandle {
    pub(crate) pid: i32,
    pub(crate) supervisor: Child,
    pub(crate) lifeline: ChildStdin,
    pub(crate) outcome: Outcome,
    pub(crate) log_dir: PathBuf,
}

/// Why the rig ended, once it has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome(Arc<Mutex<Option<String>>>);

impl Outcome {
    pub(crate) fn get(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, reason: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(reason);
    }
}

enum Event {
    Locked,
    Pid(i32),
    Step(String),
    Ready,
    Failed { component: String, reason: String },
    End(String),
}

impl Event {
    fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "LOCKED" => Some(Self::Locked),
            "PID" => rest.parse().ok().map(Self::Pid),
            "STEP" => Some(Self::Step(rest.to_owned())),
            "READY" => Some(Self::Ready),
            "FAILED" => {
                let (component, reason) = rest.split_once(' ').unwrap_or((rest, "failed"));
                Some(Self::Failed {
                    component: component.to_owned(),
                    reason: reason.to_owned(),
                })
            }
            "END" => Some(Self::End(rest.to_owned())),
            _ => None,
        }
    }
}

/// Starts the supervisor of rig `name` and waits until the cluster is ready.
pub(crate) fn start(
    name: &str,
    options: &Options,
    binaries: &Binaries,
) -> Result<SupervisorHandle> {
    let state = state::rigs()?.join(name);
    let log_dir = match &options.log_dir {
        Some(dir) => dir.clone(),
        None => state::default_log_dir(name)?,
    };
    fs::create_dir_all(&log_dir)
        .with_context(|| format!("cannot create the log directory {}", log_dir.display()))?;
    let log_dir = log_dir
        .canonicalize()
        .with_context(|| format!("cannot resolve {}", log_dir.display()))?;

    let recording = state::lock()?;
    state::sweep_locked()?;
    ensure!(!state.exists(), "a cluster named {name} is already running");
    config::write(&state.join("files"), &state::cgroup(name), options)?;
    for (script, text) in [("supervisor.sh", SUPERVISOR), ("init.sh", INIT)] {
        fs::write(state.join(script), text)
            .with_context(|| format!("cannot write {script} for the rig {name}"))?;
    }
    let mut supervisor = command(name, &state, &log_dir, options, binaries)?
        .spawn()
        .context("cannot start the rig's supervisor (bash)")?;
    let (Some(lifeline), Some(stdout)) = (supervisor.stdin.take(), supervisor.stdout.take()) else {
        bail!("the rig's supervisor has no pipes");
    };
    let outcome = Outcome::default();
    let report = Report {
        events: follow(stdout, outcome.clone()),
        deadline: Instant::now() + START_DEADLINE * 2,
        log_dir: &log_dir,
    };
    match wait_until_ready(&report, recording) {
        Ok(pid) => Ok(SupervisorHandle {
            pid,
            supervisor,
            lifeline,
            outcome,
            log_dir,
        }),
        Err(error) => {
            // The supervisor cleans up before the caller gets the error.
            drop(lifeline);
            let _ = supervisor.wait();
            Err(error)
        }
    }
}

/// Follows the report to READY and returns init's pid. The rig counts as recorded as soon as the
/// supervisor holds its own lock; from then on other processes may sweep again.
fn wait_until_ready(report: &Report<'_>, recording: Lock) -> Result<i32> {
    report.wait_for("lock", |event| matches!(event, Event::Locked).then_some(()))?;
    drop(recording);
    let pid = report.wait_for("pid", |event| match event {
        Event::Pid(pid) => Some(*pid),
        _ => None,
    })?;
    report.wait_for("start", |event| matches!(event, Event::Ready).then_some(()))?;
    Ok(pid)
}

fn command(
    name: &str,
    state: &Path,
    log_dir: &Path,
    options: &Options,
    binaries: &Binaries,
) -> Result<Command> {
    let log = File::create(log_dir.join("supervisor.log"))
        .with_context(|| format!("cannot write into {}", log_dir.display()))?;
    let mut command = Command::new("bash");
    command.arg(state.join("supervisor.sh"));
    // Ctrl-C in a terminal is for the caller, who then closes the lifeline.
    command.process_group(0);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log);
    // The caller's environment (proxies, kubeconfigs) must not reach the components.
    command.env_clear();
    command.env(
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
    command.env("HOME", "/").env("LC_ALL", "C");
    let inside = |path: &str| format!("{}/cluster/{path}", config::HOME);
    let path: Vec<String> = Binaries::program_dirs()
        .iter()
        .map(|dir| inside(dir))
        .collect();
    command
        .env("RIG_NAME", name)
        .env("RIG_STATE", state)
        .env("RIG_CGROUP", state::cgroup(name))
        .env("RIG_LOG", log_dir)
        .env("RIG_CLUSTER", binaries.root())
        .env("RIG_PATH", path.join(":"))
        .env("RIG_IMAGES", inside(&Binaries::image_archive()))
        .env("NODE_NAME", config::NODE_NAME)
        .env("NODE_IP", config::NODE_IP)
        .env("API_PORT", config::API_PORT.to_string())
        .env("SERVICE_CIDR", config::SERVICE_CIDR)
        .env("POD_CIDR", config::POD_CIDR)
        .env("APISERVER_EXTRA", options.apiserver_extra.join(" "))
        .env("CONTROLLERS_EXTRA", options.controllers_extra.join(" "))
        .env("START_DEADLINE", START_DEADLINE.as_secs().to_string());
    Ok(command)
}

/// Reads the supervisor's report to its end, so that the supervisor never writes to a closed pipe.
fn follow(stdout: ChildStdout, outcome: Outcome) -> Receiver<Event> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(event) = Event::parse(&line) {
                note_end(&event, &outcome);
                send(&sender, event);
            }
        }
        outcome.set("its init was killed".into());
    });
    receiver
}

fn note_end(event: &Event, outcome: &Outcome) {
    match event {
        Event::Failed { component, reason } => outcome.set(format!("{component} {reason}")),
        Event::End(reason) => outcome.set(reason.clone()),
        Event::Locked | Event::Pid(_) | Event::Step(_) | Event::Ready => {}
    }
}

fn send(sender: &Sender<Event>, event: Event) {
    // There is no receiver any more once the rig is ready.
    let _ = sender.send(event);
}

/// The supervisor's report while the rig starts.
struct Report<'a> {
    events: Receiver<Event>,
    deadline: Instant,
    log_dir: &'a Path,
}

impl Report<'_> {
    /// Waits for the event that `wanted` accepts; a failure before it carries the log's end.
    fn wait_for<T>(&self, what: &str, wanted: impl Fn(&Event) -> Option<T>) -> Result<T> {
        let mut reached = String::from("nothing");
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => {
                    if let Some(value) = wanted(&event) {
                        return Ok(value);
                    }
                    match event {
                        Event::Failed { component, reason } => {
                            return Err(self.failure(&component, &reason));
                        }
                        Event::End(reason) => return Err(self.failure("supervisor", &reason)),
                        Event::Step(step) => reached = step,
                        Event::Locked | Event::Pid(_) | Event::Ready => {}
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let reason = format!("gave no sign of its {what} (reached: {reached})");
                    return Err(self.failure("supervisor", &reason));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = format!("ended before its {what} (reached: {reached})");
                    return Err(self.failure("supervisor", &reason));
                }
            }
        }
    }

    fn failure(&self, component: &str, reason: &str) -> anyhow::Error {
        let known = self.log_dir.join(format!("{component}.log"));
        let log = if known.exists() {
            known
        } else {
            self.log_dir.join("supervisor.log")
        };
        anyhow::anyhow!(
            "the cluster did not start: {component} {reason}\nthe end of {}:\n{}",
            log.display(),
            exec::tail_of(&log)
        )
    }
}
