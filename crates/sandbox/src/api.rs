//! The sandbox's API server with gpushare's kinds, and the kubeconfig for it.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpushare_apiserver::{Logs, Server};
use gpushare_kube::gpu_budget::GpuBudget;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::error::SandboxError;

/// Every version kept costs memory, above all with thousands of nodes. A client that falls behind lists again.
const HISTORY: usize = 2_000;

/// Starts an empty cluster on a free loopback port; only users who can read the kubeconfig have access.
pub(crate) async fn start(logs: Arc<dyn Logs>) -> Result<Server, SandboxError> {
    let token = uuid::Uuid::new_v4().simple().to_string();
    let server = Server::builder()
        .crd(GpuBudget::crd())
        .review(
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            everything,
        )
        .review("authentication.k8s.io", "selfsubjectreviews", whoever)
        .logs(logs)
        .token(token)
        .history(HISTORY);
    Ok(server.start().await?)
}

/// Answers every access review with yes: the sandbox has no access control.
fn everything(_question: &Value) -> Value {
    json!({"allowed": true, "reason": "the sandbox knows no users and no rights"})
}

fn whoever(_question: &Value) -> Value {
    json!({"userInfo": {"username": "sandbox", "groups": ["system:masters"]}})
}

/// Writes the kubeconfig so that only its owner can read it.
pub(crate) fn write_kubeconfig(server: &Server, home: &Path) -> Result<PathBuf, SandboxError> {
    use std::io::Write as _;
    let path = home.join("kubeconfig");
    let failed = |source| SandboxError::File {
        path: path.clone(),
        source,
    };
    let mut file = std::fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    file.write_all(server.kubeconfig().as_bytes())
        .map_err(failed)?;
    Ok(path)
}
