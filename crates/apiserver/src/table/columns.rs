//! Which columns a kind has. Data only: one list per kind, in the real server's order.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::cells;
use crate::json::Path;
use crate::resource::Resource;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) cell: Cell,
    /// Shown with `-o wide` only.
    pub(crate) wide: bool,
}

/// Where the content of a column comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    /// A field by its dotted path, unchanged.
    Field(&'static str),
    /// The status of a condition.
    Condition(&'static str),
    /// How long ago a time was.
    Age(&'static str),
    /// A text made from the object.
    Text(fn(&Value) -> String),
    Number(fn(&Value) -> i64),
    /// A text that depends on the time.
    Timed(fn(&Value, Timestamp) -> String),
}

impl Cell {
    pub(super) fn read(self, object: &Value, now: Timestamp) -> Value {
        match self {
            Self::Field(path) => object.at(path).cloned().unwrap_or(json!("")),
            Self::Condition(kind) => cells::condition_status(object, kind).into(),
            Self::Age(path) => since(object.text(path), now).into(),
            Self::Text(read) => read(object).into(),
            Self::Number(read) => read(object).into(),
            Self::Timed(read) => read(object, now).into(),
        }
    }
}

impl Column {
    pub(super) fn kind(&self) -> &'static str {
        match self.cell {
            Cell::Number(_) => "integer",
            _ => "string",
        }
    }
}

const fn column(name: &'static str, cell: Cell) -> Column {
    Column {
        name,
        cell,
        wide: false,
    }
}

const fn wide(name: &'static str, cell: Cell) -> Column {
    Column {
        name,
        cell,
        wide: true,
    }
}

const NAME: Column = column("Name", Cell::Field("metadata.name"));
const AGE: Column = column("Age", Cell::Age("metadata.creationTimestamp"));
const CONTAINERS: Column = wide(
    "Containers",
    Cell::Text(|object| cells::of_containers(object, "name")),
);
const IMAGES: Column = wide(
    "Images",
    Cell::Text(|object| cells::of_containers(object, "image")),
);
const SELECTOR: Column = wide(
    "Selector",
    Cell::Text(|object| cells::pairs(object, "spec.selector.matchLabels")),
);

const fn count(name: &'static str, read: fn(&Value) -> i64) -> Column {
    column(name, Cell::Number(read))
}

const PODS: &[Column] = &[
    NAME,
    column("Ready", Cell::Text(cells::pod_ready)),
    column("Status", Cell::Text(cells::pod_status)),
    count("Restarts", cells::pod_restarts),
    AGE,
    wide(
        "IP",
        Cell::Text(|pod| cells::or_none(pod.text("status.podIP"))),
    ),
    wide(
        "Node",
        Cell::Text(|pod| cells::or_none(pod.text("spec.nodeName"))),
    ),
    wide(
        "Nominated Node",
        Cell::Text(|pod| cells::or_none(pod.text("status.nominatedNodeName"))),
    ),
    wide("Readiness Gates", Cell::Text(|_| cells::or_none(""))),
];

const NODES: &[Column] = &[
    NAME,
    column("Status", Cell::Text(cells::node_status)),
    column("Roles", Cell::Text(cells::node_roles)),
    AGE,
    column("Version", Cell::Field("status.nodeInfo.kubeletVersion")),
    wide(
        "Internal-IP",
        Cell::Text(|node| cells::node_address(node, "InternalIP")),
    ),
    wide(
        "External-IP",
        Cell::Text(|node| cells::node_address(node, "ExternalIP")),
    ),
    wide("OS-Image", Cell::Field("status.nodeInfo.osImage")),
    wide(
        "Kernel-Version",
        Cell::Field("status.nodeInfo.kernelVersion"),
    ),
    wide(
        "Container-Runtime",
        Cell::Field("status.nodeInfo.containerRuntimeVersion"),
    ),
];

const EVENTS: &[Column] = &[
    column("Last Seen", Cell::Timed(cells::event_last_seen)),
    column("Type", Cell::Field("type")),
    column("Reason", Cell::Field("reason")),
    column("Object", Cell::Text(cells::event_object)),
    wide("Subobject", Cell::Field("involvedObject.fieldPath")),
    wide("Source", Cell::Field("reportingComponent")),
    column("Message", Cell::Field("message")),
    wide("First Seen", Cell::Age("firstTimestamp")),
    wide(
        "Count",
        Cell::Number(|event| event.int("count").unwrap_or(1)),
    ),
    wide("Name", Cell::Field("metadata.name")),
];

const DEPLOYMENTS: &[Column] = &[
    NAME,
    column(
        "Ready",
        Cell::Text(|object| cells::of_replicas(object, "status.readyReplicas")),
    ),
    count("Up-to-date", |d| {
        d.int("status.updatedReplicas").unwrap_or(0)
    }),
    count("Available", |d| {
        d.int("status.availableReplicas").unwrap_or(0)
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SETS: &[Column] = &[
    NAME,
    count("Desired", |set| set.int("spec.replicas").unwrap_or(0)),
    count("Current", |set| set.int("status.replicas").unwrap_or(0)),
    count("Ready", |set| set.int("status.readyReplicas").unwrap_or(0)),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const STATEFUL_SETS: &[Column] = &[
    NAME,
    column(
        "Ready",
        Cell::Text(|object| cells::of_replicas(object, "status.readyReplicas")),
    ),
    AGE,
    CONTAINERS,
    IMAGES,
];

const JOBS: &[Column] = &[
    NAME,
    column("Status", Cell::Text(cells::job_status)),
    column("Completions", Cell::Text(cells::job_completions)),
    column("Duration", Cell::Timed(cells::job_duration)),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const SERVICES: &[Column] = &[
    NAME,
    column("Type", Cell::Field("spec.type")),
    column(
        "Cluster-IP",
        Cell::Text(|service| cells::or_none(service.text("spec.clusterIP"))),
    ),
    column("External-IP", Cell::Text(|_| cells::or_none(""))),
    column("Port(s)", Cell::Text(cells::service_ports)),
    AGE,
    wide(
        "Selector",
        Cell::Text(|service| cells::pairs(service, "spec.selector")),
    ),
];

const DISRUPTION_BUDGETS: &[Column] = &[
    NAME,
    column(
        "Min Available",
        Cell::Text(|object| cells::number_or_percentage(object, "spec.minAvailable")),
    ),
    column(
        "Max Unavailable",
        Cell::Text(|object| cells::number_or_percentage(object, "spec.maxUnavailable")),
    ),
    count("Allowed Disruptions", |budget| {
        budget.int("status.disruptionsAllowed").unwrap_or(0)
    }),
    AGE,
];

const PRIORITY_CLASSES: &[Column] = &[
    NAME,
    count("Value", |class| class.int("value").unwrap_or(0)),
    column(
        "Global-Default",
        Cell::Text(|class| {
            let default = class.at("globalDefault").and_then(Value::as_bool);
            default.unwrap_or_default().to_string()
        }),
    ),
    AGE,
    column("PreemptionPolicy", Cell::Field("preemptionPolicy")),
];

const fn size(name: &'static str, read: fn(&Value) -> i64) -> [Column; 3] {
    [NAME, count(name, read), AGE]
}

fn entries(object: &Value, path: &str) -> i64 {
    let entries = object.map(path).map_or(0, serde_json::Map::len);
    i64::try_from(entries).unwrap_or(i64::MAX)
}

fn items(object: &Value, path: &str) -> i64 {
    i64::try_from(object.list(path).len()).unwrap_or(i64::MAX)
}

const CONFIG_MAPS: &[Column] = &size("Data", |object| {
    entries(object, "data") + entries(object, "binaryData")
});
const SERVICE_ACCOUNTS: &[Column] = &size("Secrets", |object| items(object, "secrets"));
const WEBHOOKS: &[Column] = &size("Webhooks", |object| items(object, "webhooks"));
const SECRETS: &[Column] = &[
    NAME,
    column("Type", Cell::Field("type")),
    count("Data", |secret| entries(secret, "data")),
    AGE,
];
const NAMESPACES: &[Column] = &[NAME, column("Status", Cell::Field("status.phase")), AGE];
const LEASES: &[Column] = &[
    NAME,
    column("Holder", Cell::Field("spec.holderIdentity")),
    AGE,
];

const RUNTIME_CLASSES: &[Column] = &[NAME, column("Handler", Cell::Field("handler")), AGE];

/// The columns of a resource; unknown kinds have a name and an age.
pub(super) fn of(resource: &Resource) -> Vec<Column> {
    let built_in = match (resource.group, resource.kind) {
        ("", "Pod") => PODS,
        ("", "Node") => NODES,
        (_, "Event") => EVENTS,
        ("", "Namespace") => NAMESPACES,
        ("", "Service") => SERVICES,
        ("", "ConfigMap") => CONFIG_MAPS,
        ("", "Secret") => SECRETS,
        ("", "ServiceAccount") => SERVICE_ACCOUNTS,
        ("apps", "Deployment") => DEPLOYMENTS,
        ("apps", "ReplicaSet") => REPLICA_SETS,
        ("apps", "StatefulSet") => STATEFUL_SETS,
        ("batch", "Job") => JOBS,
        ("policy", "PodDisruptionBudget") => DISRUPTION_BUDGETS,
        ("scheduling.k8s.io", "PriorityClass") => PRIORITY_CLASSES,
        ("coordination.k8s.io", "Lease") => LEASES,
        ("node.k8s.io", "RuntimeClass") => RUNTIME_CLASSES,
        ("admissionregistration.k8s.io", _) => WEBHOOKS,
        _ => {
            let own = resource.columns.iter().copied();
            return std::iter::once(NAME).chain(own).chain([AGE]).collect();
        }
    };
    built_in.to_vec()
}
