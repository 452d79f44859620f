//! Log output: text for people, JSON for collectors, filtered by directives such as `info,kube=warn`.

use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;

use thiserror::Error;
use tracing_subscriber::EnvFilter;

/// The target of log lines that record who did what, or was refused.
pub const AUDIT: &str = "gpushare::audit";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("unknown log format {other:?}: use text or json")),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

#[derive(Debug, Error)]
pub enum LoggingError {
    #[error(
        "cannot read the log filter {filter:?}: {reason}; write for example info,gpushare=debug"
    )]
    Filter { filter: String, reason: String },
    #[error("cannot start logging: {0}")]
    Start(String),
}

/// Starts logging to standard error; call it once per process.
pub fn init(format: Format, filter: &str) -> Result<(), LoggingError> {
    let filter = EnvFilter::try_new(filter).map_err(|error| LoggingError::Filter {
        filter: filter.to_owned(),
        reason: error.to_string(),
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        Format::Text => builder.try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(|error| LoggingError::Start(error.to_string()))
}
