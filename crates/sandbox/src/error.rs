//! Errors that keep the sandbox from starting or its story from continuing.

use std::path::PathBuf;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum SandboxError {
    #[error("cannot create a directory for the sandbox in {}; set TMPDIR to one that can be written", std::env::temp_dir().display())]
    Directory(#[source] std::io::Error),
    #[error("{} is too long a path for the sockets in it; set TMPDIR to a shorter one, such as /tmp", .0.display())]
    LongDirectory(PathBuf),
    #[error("cannot use {path}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the embedded API server does not start")]
    ApiServer(#[from] gpushare_apiserver::StartError),
    #[error("the ledger's database cannot be named")]
    Ledger(#[from] gpushare_ledger::store::database::DatabaseError),
    #[error("a component does not start")]
    Component(#[from] gpushare_kube::start::StartError),
    #[error("the timekeeper does not start")]
    Timekeeper(#[from] gpushare_timekeeper::StartError),
    #[error("the dashboard does not start")]
    Dashboard(#[from] gpushare_dashboard::StartError),
    #[error("the agent of node {node} does not start")]
    Agent {
        node: String,
        source: gpushare_node::agent::AgentError,
    },
    #[error("cannot {what}")]
    Api {
        what: String,
        source: Box<kube::Error>,
    },
    #[error("waited {seconds} s for {what}; {seen}")]
    Late {
        what: String,
        seconds: u64,
        seen: String,
    },
    #[error("{path}: {reason}")]
    Scenario { path: String, reason: String },
    #[error("step {number} of the story failed")]
    Step {
        number: usize,
        source: Box<SandboxError>,
    },
    #[error("--speed {0} is not between 1 and 1000")]
    Speed(u32),
    #[error("--nodes {0} is not between 1 and 20000")]
    Nodes(usize),
    #[error(transparent)]
    Stopped(#[from] gpushare_daemon::tasks::TaskFailure),
}

impl SandboxError {
    /// Says what was being done when the API server refused.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api {
            what,
            source: Box::new(source),
        }
    }
}
