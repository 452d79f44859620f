//! One of our programs as a process, which a test can kill at any moment.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::Value;

/// One of our built programs.
pub fn binary(name: &str) -> PathBuf {
    let directory = std::env::var_os("GPUSHARE_BIN_DIR").expect(
        "GPUSHARE_BIN_DIR names the built programs: run `cargo xtask test` or `cargo xtask e2e`",
    );
    let program = PathBuf::from(directory).join(name);
    assert!(program.exists(), "there is no {}", program.display());
    program
}

/// Killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
}

impl Process {
    /// Starts `command`. Its program must replace itself rather than fork, so that its pid is the child's. Its output
    /// is appended to `log`.
    pub fn start(name: &'static str, mut command: Command, log: &Path) -> Self {
        let open = || File::options().create(true).append(true).open(log);
        command
            .stdout(open().expect("the log opens"))
            .stderr(open().expect("the log opens"));
        Self::spawn(name, &mut command)
    }

    fn spawn(name: &'static str, command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { name, child }
    }

    /// `kill -9`: no handler runs, nothing is flushed.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a killed child ends");
    }

    pub fn assert_alive(&mut self) {
        let ended = self.ended();
        assert!(
            ended.is_none(),
            "{} has ended by itself: {ended:?}",
            self.name
        );
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked")
    }

    /// Asks the process to end, and returns whether it ended with success.
    pub fn terminate(&mut self) -> bool {
        self.signal("-TERM");
        self.child.wait().expect("a child ends").success()
    }

    /// Stops the process without ending it, as on an overloaded machine.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets the process continue.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(
            sent.is_ok_and(|status| status.success()),
            "{} takes no signal",
            self.name
        );
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process whose log in JSON says where it listens.
#[derive(Debug)]
pub struct Logging {
    pub process: Process,
    logged: Vec<Value>,
    rest: Option<JoinHandle<usize>>,
}

impl Logging {
    /// Starts `command`, and reads its log until the field `last` is in it.
    pub fn start(name: &'static str, mut command: Command, last: &str) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Process::spawn(name, &mut command);
        let stderr = process.child.stderr.take().expect("its log is a pipe");
        let mut lines = BufReader::new(stderr).lines();
        let mut logged: Vec<Value> = Vec::new();
        while logged.last().is_none_or(|line| line.get(last).is_none()) {
            let line = lines.next().and_then(Result::ok);
            let line = line.unwrap_or_else(|| panic!("{name} ended: {logged:?}"));
            let parsed = serde_json::from_str(&line);
            logged.push(parsed.unwrap_or_else(|error| panic!("{name}: {error}: {line}")));
        }
        // Read on, or the process would wait for a full pipe.
        let rest = Some(thread::spawn(move || lines.map_while(Result::ok).count()));
        Self {
            process,
            logged,
            rest,
        }
    }

    /// What it logged at its start under this name.
    pub fn logged(&self, name: &str) -> &str {
        let mut found = self
            .logged
            .iter()
            .filter_map(|line| line.get(name)?.as_str());
        found.next().expect("it was logged")
    }

    /// Asks the process to end, and asserts that it does with success.
    pub fn terminate(mut self) {
        assert!(self.process.terminate(), "{} failed", self.process.name);
        let rest = self.rest.take().map(JoinHandle::join);
        rest.expect("it is read once").expect("its log is read");
    }
}
