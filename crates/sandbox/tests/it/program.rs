//! The sandbox as a program: several at once, signals, and nothing left behind.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A running sandbox with a directory of its own for temporary files.
struct Program {
    child: Child,
    out: BufReader<ChildStdout>,
    temporary: tempfile::TempDir,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpushare-sandbox"))
            .args(arguments)
            .env("TMPDIR", temporary.path())
            .env_remove("GPUSHARE_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            out,
            temporary,
        }
    }

    /// The path of the kubeconfig, as soon as it is told.
    fn kubeconfig(&mut self) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert!(
                self.out.read_line(&mut line).unwrap() > 0,
                "it ended: {seen}"
            );
            if let Some((_, path)) = line.split_once("KUBECONFIG=") {
                return path.trim().to_owned();
            }
            seen.push_str(&line);
        }
    }

    fn interrupt(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
    }

    /// Whether it ended well, and what it printed until then.
    fn finish(mut self) -> (bool, String) {
        let mut told = String::new();
        self.out.read_to_string(&mut told).unwrap();
        let status = self.child.wait().unwrap();
        let left: Vec<_> = std::fs::read_dir(self.temporary.path()).unwrap().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        (status.success(), told)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A test that fails must not leave it running.
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn ctrl_c_ends_two_sandboxes_that_ran_side_by_side_and_leaves_nothing() {
    let mut one = Program::start(&["--no-story"]);
    let mut other = Program::start(&["--no-story"]);
    let paths = [one.kubeconfig(), other.kubeconfig()];
    assert_ne!(paths[0], paths[1]);
    for path in &paths {
        assert!(Path::new(path).exists(), "{path}");
    }
    one.interrupt();
    let (well, _) = finish(one);
    assert!(well, "Ctrl-C is no failure");
    assert!(Path::new(&paths[1]).exists(), "the other one goes on");
    other.interrupt();
    assert!(finish(other).0);
    assert!(!paths.iter().any(|path| Path::new(path).exists()));
}

fn scenario(steps: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("story.yaml");
    std::fs::write(&path, format!("title: short\nsteps:\n{steps}")).unwrap();
    let path = path.display().to_string();
    (directory, path)
}

fn finish(program: Program) -> (bool, String) {
    program.finish()
}

#[test]
fn a_scenario_of_ones_own_is_played_and_decides_how_the_program_ends() {
    let (_kept, good) = scenario("- say: hello there\n- wait: {gone: default/nobody}\n");
    let program = Program::start(&["--exit-after-story", "--scenario", &good]);
    let (well, told) = finish(program);
    assert!(well, "{told}");
    assert!(told.contains("hello there"), "{told}");

    let (_kept, bad) = scenario("- wait: {running: default/nobody, within: 1s}\n");
    let program = Program::start(&["--exit-after-story", "--scenario", &bad]);
    let (well, _) = finish(program);
    assert!(!well, "what was waited for did not happen");
}
