//! A pynvml client in its own process, driven line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use gpushare_fake_nvml::HARDWARE_ENV;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clients::{Listed, Machine, program};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pynvml_client.py");

/// Killed when dropped, so that a failed test leaves no process behind.
pub(crate) struct Pynvml {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reply {
    Ok(Value),
    Error(String),
}

impl Pynvml {
    /// Starts Python on this machine without initialising NVML yet.
    pub(crate) fn start(machine: &Machine) -> Self {
        Self::start_with(machine, None)
    }

    /// Like [`Pynvml::start`], with the hardware file named by the environment.
    pub(crate) fn start_with(machine: &Machine, hardware: Option<&Path>) -> Self {
        let python = program(
            "GPUSHARE_PYTHON",
            "a Python that has the package nvidia-ml-py",
        );
        let mut command = Command::new(python);
        command
            .arg(SCRIPT)
            .env("LD_LIBRARY_PATH", &machine.installed.directory)
            .env_remove(HARDWARE_ENV)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(hardware) = hardware {
            command.env(HARDWARE_ENV, hardware);
        }
        let mut child = command.spawn().expect("GPUSHARE_PYTHON starts");
        let commands = child.stdin.take();
        let answers = child.stdout.take().expect("stdout is a pipe");
        Self {
            child,
            commands,
            answers: BufReader::new(answers),
        }
    }

    /// A client that has initialised NVML.
    pub(crate) fn initialized(machine: &Machine) -> Self {
        let mut client = Self::start(machine);
        client.ask::<()>("init").expect("pynvml initialises");
        client
    }

    pub(crate) fn list(&mut self) -> Result<Vec<Listed>, String> {
        self.ask("list")
    }

    /// Sends a command and takes its answer; an NVML error comes as the name of its Python class.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, command: &str) -> Result<T, String> {
        self.send(command);
        self.answer()
    }

    pub(crate) fn send(&mut self, command: &str) {
        let pipe = self.commands.as_mut().expect("the client takes commands");
        writeln!(pipe, "{command}").expect("the client reads its commands");
    }

    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> Result<T, String> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .expect("the client's answers are text");
        assert!(!line.is_empty(), "the client ended: {}", self.finish());
        match serde_json::from_str(&line).expect("an answer is JSON") {
            Reply::Ok(value) => Ok(serde_json::from_value(value).expect("an answer of this type")),
            Reply::Error(name) => Err(name),
        }
    }

    /// Ends the client and returns what it wrote to stderr.
    pub(crate) fn finish(&mut self) -> String {
        self.commands = None;
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).expect("stderr is text");
        }
        self.child.wait().expect("the client ends");
        text
    }
}

impl Drop for Pynvml {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
