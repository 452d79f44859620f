//! Stories: what happens in the sandbox, step by step, as a YAML file. The format is in docs/sandbox.md.

mod play;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::SandboxError;
use crate::install;

pub use play::Player;

const BUILT_IN: &str = include_str!("../../stories/default.yaml");
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Story {
    pub title: String,
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Words for whoever watches.
    Say(String),
    /// Manifests, as for kubectl.
    Apply(#[serde(deserialize_with = "manifests")] Vec<Value>),
    Delete(Target),
    /// Goes on when it has come true; the story has failed if it does not in time.
    Wait(Expectation),
    Show(View),
    /// Simulated time in which nothing new happens.
    Pause(#[serde(deserialize_with = "duration")] Duration),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Target {
    pub api_version: String,
    pub kind: String,
    #[serde(default)]
    pub namespace: Option<String>,
    pub name: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    #[serde(flatten)]
    pub what: What,
    /// How long it may take, in real time.
    #[serde(default = "patience", deserialize_with = "duration")]
    pub within: Duration,
}

/// What must come true. Objects are named as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A pod whose containers run.
    Running(String),
    /// A pod that fits nowhere now; the reason is shown.
    Refused(String),
    /// A pod that has ended well.
    Succeeded(String),
    /// A pod that does not exist.
    Gone(String),
    /// A Deployment with all its pods ready.
    Available(String),
    /// A budget that the timekeeper has taken up, with something left.
    Funded(String),
    /// A budget of which nothing remains.
    Exhausted(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// Every card with what is booked on it.
    Cards,
}

fn patience() -> Duration {
    PATIENCE
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let parsed: Result<jiff::SignedDuration, _> = text.parse();
    let duration = parsed.map_err(serde::de::Error::custom)?;
    Duration::try_from(duration).map_err(serde::de::Error::custom)
}

fn manifests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    let text = String::deserialize(deserializer)?;
    install::documents(&text).map_err(serde::de::Error::custom)
}

impl Story {
    /// The story that the sandbox tells by itself.
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

    fn parse(path: &str, text: &str) -> Result<Self, SandboxError> {
        let wrong = |reason: String| SandboxError::Scenario {
            path: path.to_owned(),
            reason,
        };
        let value: Value =
            serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_story_can_be_read() {
        let story = Story::built_in().unwrap();
        assert!(story.steps.len() > 10);
    }

    #[test]
    fn a_step_that_nobody_knows_is_refused_with_the_file_and_its_name() {
        let text = "title: t\nsteps:\n- dance: now\n";
        let error = Story::parse("my.yaml", text).unwrap_err().to_string();
        assert!(error.starts_with("my.yaml: "), "{error}");
        assert!(error.contains("dance"), "{error}");
    }

    #[test]
    fn waiting_has_a_limit_of_its_own_or_the_usual_one() {
        let text = "title: t\nsteps:\n- wait: {running: a/b}\n- wait: {gone: a/b, within: 5s}\n";
        let story = Story::parse("x", text).unwrap();
        let limits: Vec<Duration> = story
            .steps
            .iter()
            .map(|step| match step {
                Step::Wait(expectation) => expectation.within,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(limits, [PATIENCE, Duration::from_secs(5)]);
    }
}
