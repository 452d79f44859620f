//! The sandbox's API server with gpushare's kinds, and the kubeconfig for it.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpushare_apiserver::{Cell, Column, Habits, Logs, NameRule, Resource, Server, Subresource};

use serde_json::{Value, json};

use crate::error::SandboxError;
use crate::install;

const DEFINITION: &str = include_str!("../../../deploy/crd.yaml");

/// Every version kept costs memory, above all with thousands of nodes. A client that falls behind lists again.
const HISTORY: usize = 2_000;

const fn column(name: &'static str, cell: Cell, wide: bool) -> Column {
    Column { name, cell, wide }
}

/// The same columns as in `deploy/crd.yaml`.
const BUDGET_COLUMNS: &[Column] = &[
    column("Amount", Cell::Field("spec.amount"), false),
    column("Period", Cell::Field("spec.period.kind"), false),
    column("Used", Cell::Field("status.used"), false),
    column("Held", Cell::Field("status.held"), true),
    column("Remaining", Cell::Field("status.remaining"), false),
    column("Exhausted", Cell::Field("status.exhausted"), false),
    column("Exhausts", Cell::Field("status.exhaustsAt"), false),
    column("Resets", Cell::Field("status.periodEnd"), true),
    column("Parent", Cell::Field("spec.parent"), true),
    column("Ready", Cell::Condition("Ready"), false),
];

const BUDGETS: Resource = Resource {
    group: "gpushare.io",
    version: "v1alpha1",
    plural: "gpubudgets",
    singular: "gpubudget",
    kind: "GpuBudget",
    namespaced: false,
    short_names: &["gb"],
    categories: &["gpushare"],
    subresources: &[Subresource::Status],
    selectable: &[],
    names: NameRule::Subdomain,
    habits: Habits {
        unconditional_update: true,
        create_on_update: false,
        returns_deleted: false,
        generation: true,
        resets_status_on_create: true,
    },
    columns: BUDGET_COLUMNS,
};

/// Starts an empty cluster on a free loopback port; only users who can read the kubeconfig have access.
pub(crate) async fn start(logs: Arc<dyn Logs>) -> Result<Server, SandboxError> {
    let token = uuid::Uuid::new_v4().simple().to_string();
    let server = Server::builder()
        .resource(BUDGETS)
        .describe(BUDGETS.group, BUDGETS.kind, budget_schema()?)
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

/// What `kubectl explain gpubudget` shows.
fn budget_schema() -> Result<Value, SandboxError> {
    let broken = |reason| SandboxError::Scenario {
        path: "deploy/crd.yaml".to_owned(),
        reason,
    };
    let documents = install::documents(DEFINITION).map_err(broken)?;
    let schema = documents
        .iter()
        .find_map(|document| document.pointer("/spec/versions/0/schema/openAPIV3Schema"));
    let schema = schema.ok_or_else(|| broken("it has no schema".to_owned()))?;
    Ok(schema.clone())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_served_as_their_definition_says() {
        let crd = DEFINITION;
        for text in [
            format!("kind: {}", BUDGETS.kind),
            format!("plural: {}", BUDGETS.plural),
            format!("group: {}", BUDGETS.group),
            format!("name: {}", BUDGETS.version),
        ] {
            assert!(crd.contains(&text), "{text}");
        }
        for column in BUDGET_COLUMNS {
            assert!(crd.contains(&format!("name: {}", column.name)));
            if let Cell::Field(path) = column.cell {
                assert!(crd.contains(&format!("jsonPath: .{path}")), "{path}");
            }
        }
    }
}
