//! The API server that a process talks to.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Debug)]
pub struct ClientArgs {
    /// Path of a kubeconfig; by default KUBECONFIG, the usual path, or the pod's service account
    #[arg(long, env = "GPUSHARE_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
}
