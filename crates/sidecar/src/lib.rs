//! The budget sidecar: tells an application how its budget stands and when its pod is to be evicted, so that it can
//! save its work.
//!
//! ```text
//! timekeeper ── GET, with the pod's own token ──► BudgetReport ──► budget.json, renamed into place
//!                                                            └──► GET /budget on the pod's loopback
//! ```
//!
//! It reports nothing, decides nothing and ends nothing: whatever goes wrong, the last state stays, marked as stale.
//! The webhook adds it to pods that ask for it (`gpushare_webhook::sidecar`), by the names below.

mod ask;
pub mod config;
mod poll;
mod publish;
mod report;

use gpushare_daemon::Tasks;

use ask::Timekeeper;
use config::Config;
use publish::Board;
use report::BudgetReport;

pub use ask::SetupError;

/// Where applications find the file.
pub const DIRECTORY: &str = "/var/run/gpushare/budget";
/// Where the sidecar finds its token.
pub const TOKEN_DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
pub const TOKEN_FILE: &str = "token";

/// The environment variables with which the webhook configures the sidecar.
pub mod environment {
    pub const TIMEKEEPER: &str = "GPUSHARE_TIMEKEEPER";
    pub const AUTHORITIES: &str = "GPUSHARE_TIMEKEEPER_CA";
    pub const NAMESPACE: &str = "POD_NAMESPACE";
    pub const POD: &str = "POD_NAME";
}

/// What an application would be told for this answer of the timekeeper, as JSON.
pub fn told(answer: &[u8]) -> serde_json::Result<Vec<u8>> {
    let answer = serde_json::from_slice(answer)?;
    serde_json::to_vec(&BudgetReport::learned(answer, jiff::Timestamp::UNIX_EPOCH))
}

/// Starts polling and publishing as services of the process, which stop at once when it shuts down.
pub fn start(config: &Config, tasks: &Tasks) -> Result<(), SetupError> {
    let timekeeper = Timekeeper::new(config)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), timekeeper = config.timekeeper, namespace = config.namespace,
        pod = config.pod, listen = %config.listen, directory = %config.directory.display(),
        "the budget sidecar starts"
    );
    let board = Board::new(&config.directory);
    let (listen, interval) = (config.listen, config.interval);
    let (shutdown, serving) = (tasks.shutdown().clone(), board.clone());
    tasks.service("the local server", async move {
        shutdown
            .run_until_cancelled(publish::serve(listen, serving))
            .await;
        Ok::<(), std::convert::Infallible>(())
    });
    let shutdown = tasks.shutdown().clone();
    tasks.service("asking the timekeeper", async move {
        shutdown
            .run_until_cancelled(poll::run(timekeeper, board, interval))
            .await;
        Ok::<(), std::convert::Infallible>(())
    });
    Ok(())
}
