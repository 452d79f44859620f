//! What the user can choose.

use std::path::PathBuf;

use clap::Args;

use crate::error::SandboxError;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many nodes to simulate; by default a small fleet of several models
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,

    /// How many times faster simulated time passes: the pauses of the story and the run time of containers
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    pub speed: u32,

    /// Play this story instead of the built-in one
    #[arg(long, value_name = "FILE", conflicts_with = "no_story")]
    pub scenario: Option<PathBuf>,

    /// Start with an empty cluster and play nothing
    #[arg(long)]
    pub no_story: bool,

    /// Exit when the story has ended; the exit code is 0 only if everything in it happened
    #[arg(long)]
    pub exit_after_story: bool,

    /// What the components log to standard error, such as info,gpushare_extender=debug
    #[arg(long, env = "GPUSHARE_LOG", default_value = "off")]
    pub log: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: None,
            speed: 1,
            scenario: None,
            no_story: false,
            exit_after_story: false,
            log: "off".to_owned(),
        }
    }
}

impl Options {
    pub fn check(&self) -> Result<(), SandboxError> {
        if !(1..=1000).contains(&self.speed) {
            return Err(SandboxError::Speed(self.speed));
        }
        match self.nodes {
            Some(nodes) if !(1..=20_000).contains(&nodes) => Err(SandboxError::Nodes(nodes)),
            _ => Ok(()),
        }
    }
}
