//! Stories: what happens in the sandbox, step by step, as a YAML file. docs/sandbox.md describes the format.

mod play;
mod read;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::error::SandboxError;

pub use play::Player;

const BUILT_IN: &str = include_str!("../../stories/default.yaml");

#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    pub title: String,
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Text for the user who watches.
    Say(String),
    /// Manifests, as for kubectl.
    Apply(Vec<Value>),
    Delete(Target),
    /// Continues when it has come true; the story fails if that takes too long.
    Wait(Expectation),
    Show(View),
    /// Simulated time in which nothing new happens.
    Pause(Duration),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub api_version: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    pub what: What,
    /// How long it may take, in real time.
    pub within: Duration,
}

/// What must come true. Objects are named as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A pod whose containers run.
    Running(String),
    /// A pod that currently fits nowhere; the reason is shown.
    Refused(String),
    /// A pod that has ended well.
    Succeeded(String),
    /// A pod that does not exist.
    Gone(String),
    /// A Deployment with all its pods ready.
    Available(String),
    /// A budget that the timekeeper has processed, with something left.
    Funded(String),
    /// A budget of which nothing remains.
    Exhausted(String),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(pod) => write!(f, "pod {pod} to run"),
            Self::Refused(pod) => write!(f, "pod {pod} to be refused"),
            Self::Succeeded(pod) => write!(f, "pod {pod} to succeed"),
            Self::Gone(pod) => write!(f, "pod {pod} to be gone"),
            Self::Available(name) => write!(f, "deployment {name} to be available"),
            Self::Funded(name) => write!(f, "budget {name} to have something left"),
            Self::Exhausted(name) => write!(f, "budget {name} to be used up"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Every card with what is booked on it.
    Cards,
}

impl Story {
    /// The story that is played by default.
    pub fn built_in() -> Result<Self, SandboxError> {
        Self::parse("the built-in story", BUILT_IN)
    }

    pub fn read(path: &Path) -> Result<Self, SandboxError> {
        let text = std::fs::read_to_string(path).map_err(|source| SandboxError::File {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads a story; errors give its name and the step.
    pub fn parse(name: &str, text: &str) -> Result<Self, SandboxError> {
        read::story(text).map_err(|reason| SandboxError::Scenario {
            path: name.to_owned(),
            reason,
        })
    }
}
