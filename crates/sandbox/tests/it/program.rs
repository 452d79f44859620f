//! The sandbox as a program: several at once, signals, and nothing left behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Long enough for a slow machine; reached only when a test fails.
const DEADLINE: Duration = Duration::from_mins(3);

/// A running sandbox with a directory of its own for temporary files.
struct Program {
    child: Child,
    out: BufReader<ChildStdout>,
    temporary: tempfile::TempDir,
}

/// How it ended, and what it printed until then.
struct Ended {
    well: bool,
    told: String,
    complained: String,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpushare-sandbox"))
            .args(arguments)
            .env("TMPDIR", temporary.path())
            .env_remove("GPUSHARE_LOG")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            out,
            temporary,
        }
    }

    /// Reads until a line contains this text, and returns the rest of that line.
    fn line_with(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert!(
                self.out.read_line(&mut line).unwrap() > 0,
                "it ended: {seen}"
            );
            if let Some((_, rest)) = line.split_once(text) {
                return rest.trim().to_owned();
            }
            seen.push_str(&line);
        }
    }

    /// The path of the kubeconfig, as soon as it is printed.
    fn kubeconfig(&mut self) -> String {
        self.line_with("KUBECONFIG=")
    }

    /// Waits until this file exists in its directory.
    fn wait_for_file(&self, name: &str) {
        let end = Instant::now() + DEADLINE;
        let there = || {
            let homes = std::fs::read_dir(self.temporary.path()).unwrap();
            homes.flatten().any(|home| home.path().join(name).exists())
        };
        while !there() {
            assert!(Instant::now() < end, "no {name}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn interrupt(&self) {
        self.send(Signal::INT);
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end, and asserts that nothing is left behind.
    fn finish(mut self) -> Ended {
        let (mut told, mut complained) = (String::new(), String::new());
        self.out.read_to_string(&mut told).unwrap();
        let mut errors = self.child.stderr.take().unwrap();
        errors.read_to_string(&mut complained).unwrap();
        let status = self.child.wait().unwrap();
        let left: Vec<_> = std::fs::read_dir(self.temporary.path()).unwrap().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        Ended {
            well: status.success(),
            told,
            complained,
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A failed test must not leave it running.
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
    assert!(one.finish().well, "Ctrl-C is no failure");
    assert!(Path::new(&paths[1]).exists(), "the other one goes on");
    other.interrupt();
    assert!(other.finish().well);
    assert!(!paths.iter().any(|path| Path::new(path).exists()));
}

#[test]
fn a_signal_during_the_start_of_a_large_fleet_leaves_nothing() {
    for (signal, reached) in [
        (Signal::TERM, "mine.yaml"),
        (Signal::INT, "n5/p/kubelet.sock"),
        (Signal::HUP, "n7/r/kubelet.sock"),
    ] {
        let program = Program::start(&["--no-story", "--nodes=5000"]);
        program.wait_for_file(reached);
        program.send(signal);
        let ended = program.finish();
        assert!(ended.well, "{signal:?}: {}", ended.complained);
    }
}

#[test]
fn a_signal_in_the_story_ends_what_watches_and_leaves_nothing() {
    let mut program = Program::start(&[]);
    let kubeconfig = std::fs::read_to_string(program.kubeconfig()).unwrap();
    let mut watching = watch_pods(&kubeconfig);
    program.line_with("$ kubectl apply");
    program.send(Signal::TERM);
    let ended = program.finish();
    assert!(ended.well, "{}", ended.complained);
    let mut rest = Vec::new();
    // The server may end the connection in any way; it only matters that the read returns.
    let _ended = watching.read_to_end(&mut rest);
}

/// A watch that has started, opened as kubectl does.
fn watch_pods(kubeconfig: &str) -> TcpStream {
    let kubeconfig: serde_json::Value = serde_json::from_str(kubeconfig).unwrap();
    let server = kubeconfig.pointer("/clusters/0/cluster/server");
    let server = server.and_then(serde_json::Value::as_str).unwrap();
    let server = server.strip_prefix("http://").unwrap();
    let (address, token) = server.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let path = format!("/{token}/api/v1/pods?watch=1");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    stream
}

#[test]
fn who_is_in_a_hurry_and_presses_twice_leaves_nothing_either() {
    let mut program = Program::start(&["--no-story"]);
    program.kubeconfig();
    program.interrupt();
    program.line_with("A second Ctrl-C ends at once");
    // It may have ended by itself in the meantime.
    let pid = Pid::from_raw(i32::try_from(program.child.id()).unwrap()).unwrap();
    let _gone = kill_process(pid, Signal::INT);
    program.finish();
}

#[test]
fn odd_surroundings_do_no_harm_or_are_named() {
    // A dead proxy does no harm: it is not used for addresses on this machine.
    let proxy = [
        ("HTTPS_PROXY", "http://127.0.0.1:1"),
        ("HOME", "/nonexistent"),
    ];
    let spaced = tempfile::Builder::new()
        .prefix("it's a ")
        .tempdir()
        .unwrap();
    let spaced_path = spaced.path().to_str().unwrap();
    let environment = [&proxy[..], &[("TMPDIR", spaced_path)]].concat();
    let mut program = Program::start_with(&["--no-story"], &environment);
    let quoted = program.kubeconfig();
    assert!(quoted.starts_with('\''), "{quoted}");
    let shown = Command::new("sh")
        .args(["-c", &format!("cat {quoted}")])
        .output()
        .unwrap();
    assert!(shown.status.success(), "{quoted}");
    program.interrupt();
    assert!(program.finish().well);
    assert_eq!(std::fs::read_dir(spaced.path()).unwrap().count(), 0);

    let deep = tempfile::tempdir().unwrap();
    let deep_path = deep.path().join("x".repeat(100));
    std::fs::create_dir(&deep_path).unwrap();
    for (directory, expected) in [
        (
            deep_path.to_str().unwrap(),
            "is too long a path for the sockets in it; set TMPDIR",
        ),
        (
            "/nonexistent",
            "cannot create a directory for the sandbox in /nonexistent; set TMPDIR",
        ),
    ] {
        let ended = Program::start_with(&["--no-story"], &[("TMPDIR", directory)]).finish();
        assert!(!ended.well);
        assert!(ended.complained.contains(expected), "{}", ended.complained);
    }
    assert_eq!(std::fs::read_dir(&deep_path).unwrap().count(), 0);
}

fn scenario(steps: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("story.yaml");
    std::fs::write(&path, format!("title: short\nsteps:\n{steps}")).unwrap();
    let path = path.display().to_string();
    (directory, path)
}

#[test]
fn a_scenario_of_ones_own_is_played_and_decides_how_the_program_ends() {
    let (_kept, good) = scenario("- say: hello there\n- wait: {gone: default/nobody}\n");
    let ended = Program::start(&["--exit-after-story", "--scenario", &good]).finish();
    assert!(ended.well, "{}", ended.complained);
    assert!(ended.told.contains("hello there"), "{}", ended.told);

    let (_kept, bad) = scenario("- wait: {running: default/nobody, within: 1s}\n");
    let ended = Program::start(&["--exit-after-story", "--scenario", &bad]).finish();
    assert!(!ended.well, "what was waited for did not happen");
    assert!(
        ended
            .complained
            .contains("step 1 of the story failed: waited 1 s for pod default/nobody to run"),
        "{}",
        ended.complained
    );

    let (_kept, unreadable) = scenario("- dance: now\n");
    let ended = Program::start(&["--scenario", &unreadable]).finish();
    assert!(!ended.well);
    let expected = format!("{unreadable}: step 1: dance is not known; a step is one of say");
    assert!(ended.complained.contains(&expected), "{}", ended.complained);
}
