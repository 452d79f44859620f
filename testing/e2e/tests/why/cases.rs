//! Waiting pods, each for one reason or for several at once.

mod around;
mod cards;

use e2e::manifest;
use e2e::paper::{NAME_LABEL, PaperNode};
use serde_json::{Value, json};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) nodes: Vec<PaperNode>,
    /// Created first, in this order; pods among them are scheduled.
    pub(crate) before: Vec<Value>,
    pub(crate) subject: Value,
    pub(crate) asked: Asked,
    /// No scheduler will ever look at the pod.
    pub(crate) nobody_looks: bool,
    pub(crate) reason: &'static str,
    /// A part of the expected message.
    pub(crate) says: &'static str,
}

pub(crate) enum Asked {
    Pod,
    File,
    Workload(&'static str),
}

fn case(name: &'static str, nodes: Vec<PaperNode>, before: Vec<Value>, subject: Value) -> Case {
    Case {
        name,
        nodes,
        before,
        subject,
        asked: Asked::Pod,
        nobody_looks: false,
        reason: "no-room",
        says: "",
    }
}

/// On one node with one card, after these objects.
fn beside(name: &'static str, before: Vec<Value>, subject: Value) -> Case {
    case(name, vec![node(&[16384])], before, subject)
}

/// Like [`beside`], with nothing else on the node.
fn alone(name: &'static str, subject: Value) -> Case {
    beside(name, vec![], subject)
}

impl Case {
    fn is(self, reason: &'static str, says: &'static str) -> Self {
        Self {
            reason,
            says,
            ..self
        }
    }

    fn asked(self, asked: Asked) -> Self {
        Self { asked, ..self }
    }

    fn nobody_looks(self) -> Self {
        Self {
            nobody_looks: true,
            ..self
        }
    }
}

fn node(mib: &[u64]) -> PaperNode {
    PaperNode::new("a", mib)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers build the limits in place"
)]
fn pod(name: &str, limits: Value) -> Value {
    with(name, &json!({"limits": limits}))
}

/// A pod with one container with these resources.
fn with(name: &str, resources: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": resources}],
        },
    })
}

fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeSelector"] = json!({NAME_LABEL: node});
    pod
}

fn spec(mut pod: Value, field: &str, value: Value) -> Value {
    pod["spec"][field] = value;
    pod
}

fn subject(limits: Value) -> Value {
    pod("subject", limits)
}

fn deployment(limits: Value) -> Value {
    let mut template = subject(limits);
    template["metadata"] = json!({"labels": {"app": "subject"}});
    template["spec"]["terminationGracePeriodSeconds"] = json!(0);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "subject"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "subject"}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers build the amounts in place"
)]
fn quota(hard: Value) -> Value {
    manifest::quota("team", &hard)
}

pub(crate) fn all() -> Vec<Case> {
    let mut all = cards::all();
    all.extend(around::all());
    all
}
