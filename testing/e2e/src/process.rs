//! One of our programs inside a rig, which a test can kill at any moment.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

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
        let child = command
            .stdin(Stdio::null())
            .stdout(open().expect("the log opens"))
            .stderr(open().expect("the log opens"))
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
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
