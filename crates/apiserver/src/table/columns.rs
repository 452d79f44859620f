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
    /// The text of a field by its dotted path, or `<none>`.
    Optional(&'static str),
    /// The number of a field by its dotted path, or 0.
    Number(&'static str),
    /// The status of a condition.
    Condition(&'static str),
    /// How long ago a time was.
    Age(&'static str),
    /// A text made from the object.
    Text(fn(&Value) -> String),
    /// A number made from the object.
    Count(fn(&Value) -> i64),
    /// A text that depends on the time.
    Timed(fn(&Value, Timestamp) -> String),
}

impl Cell {
    pub(super) fn read(self, object: &Value, now: Timestamp) -> Value {
        match self {
            Self::Field(path) => object.at(path).cloned().unwrap_or(json!("")),
            Self::Optional(path) => cells::or_none(object.text(path)).into(),
            Self::Number(path) => object.int(path).unwrap_or(0).into(),
            Self::Condition(kind) => cells::condition_status(object, kind).into(),
            Self::Age(path) => since(object.text(path), now).into(),
            Self::Text(read) => read(object).into(),
            Self::Count(read) => read(object).into(),
            Self::Timed(read) => read(object, now).into(),
        }
    }
}

impl Column {
    pub(super) fn kind(&self) -> &'static str {
        match self.cell {
            Cell::Number(_) | Cell::Count(_) => "integer",
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

const fn wide(column: Column) -> Column {
    Column {
        wide: true,
        ..column
    }
}

const fn field(name: &'static str, path: &'static str) -> Column {
    column(name, Cell::Field(path))
}

const fn optional(name: &'static str, path: &'static str) -> Column {
    column(name, Cell::Optional(path))
}

const fn number(name: &'static str, path: &'static str) -> Column {
    column(name, Cell::Number(path))
}

const fn count(name: &'static str, read: fn(&Value) -> i64) -> Column {
    column(name, Cell::Count(read))
}

const fn text(name: &'static str, read: fn(&Value) -> String) -> Column {
    column(name, Cell::Text(read))
}

const NAME: Column = field("Name", "metadata.name");
const AGE: Column = column("Age", Cell::Age("metadata.creationTimestamp"));
const CONTAINERS: Column = wide(text("Containers", |object| {
    cells::of_containers(object, "name")
}));
const IMAGES: Column = wide(text("Images", |object| {
    cells::of_containers(object, "image")
}));
const SELECTOR: Column = wide(text("Selector", |object| {
    cells::pairs(object, "spec.selector.matchLabels")
}));
const READY_REPLICAS: Column = text("Ready", |object| {
    cells::of_replicas(object, "status.readyReplicas")
});

const PODS: &[Column] = &[
    NAME,
    text("Ready", cells::pod_ready),
    text("Status", cells::pod_status),
    count("Restarts", cells::pod_restarts),
    AGE,
    wide(optional("IP", "status.podIP")),
    wide(optional("Node", "spec.nodeName")),
    wide(optional("Nominated Node", "status.nominatedNodeName")),
    wide(text("Readiness Gates", |_| cells::or_none(""))),
];

const NODES: &[Column] = &[
    NAME,
    text("Status", cells::node_status),
    text("Roles", cells::node_roles),
    AGE,
    field("Version", "status.nodeInfo.kubeletVersion"),
    wide(text("Internal-IP", |node| {
        cells::node_address(node, "InternalIP")
    })),
    wide(text("External-IP", |node| {
        cells::node_address(node, "ExternalIP")
    })),
    wide(field("OS-Image", "status.nodeInfo.osImage")),
    wide(field("Kernel-Version", "status.nodeInfo.kernelVersion")),
    wide(field(
        "Container-Runtime",
        "status.nodeInfo.containerRuntimeVersion",
    )),
];

const EVENTS: &[Column] = &[
    column("Last Seen", Cell::Timed(cells::event_last_seen)),
    field("Type", "type"),
    field("Reason", "reason"),
    text("Object", cells::event_object),
    wide(field("Subobject", "involvedObject.fieldPath")),
    wide(field("Source", "reportingComponent")),
    field("Message", "message"),
    wide(column("First Seen", Cell::Age("firstTimestamp"))),
    wide(count("Count", |event| event.int("count").unwrap_or(1))),
    wide(field("Name", "metadata.name")),
];

const DEPLOYMENTS: &[Column] = &[
    NAME,
    READY_REPLICAS,
    number("Up-to-date", "status.updatedReplicas"),
    number("Available", "status.availableReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SETS: &[Column] = &[
    NAME,
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const STATEFUL_SETS: &[Column] = &[NAME, READY_REPLICAS, AGE, CONTAINERS, IMAGES];

const JOBS: &[Column] = &[
    NAME,
    text("Status", cells::job_status),
    text("Completions", cells::job_completions),
    column("Duration", Cell::Timed(cells::job_duration)),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const SERVICES: &[Column] = &[
    NAME,
    field("Type", "spec.type"),
    optional("Cluster-IP", "spec.clusterIP"),
    text("External-IP", |_| cells::or_none("")),
    text("Port(s)", cells::service_ports),
    AGE,
    wide(text("Selector", |service| {
        cells::pairs(service, "spec.selector")
    })),
];

const DISRUPTION_BUDGETS: &[Column] = &[
    NAME,
    text("Min Available", |object| {
        cells::number_or_percentage(object, "spec.minAvailable")
    }),
    text("Max Unavailable", |object| {
        cells::number_or_percentage(object, "spec.maxUnavailable")
    }),
    number("Allowed Disruptions", "status.disruptionsAllowed"),
    AGE,
];

const PRIORITY_CLASSES: &[Column] = &[
    NAME,
    number("Value", "value"),
    text("Global-Default", |class| {
        let default = class.at("globalDefault").and_then(Value::as_bool);
        default.unwrap_or_default().to_string()
    }),
    AGE,
    field("PreemptionPolicy", "preemptionPolicy"),
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
    field("Type", "type"),
    count("Data", |secret| entries(secret, "data")),
    AGE,
];
const NAMESPACES: &[Column] = &[NAME, field("Status", "status.phase"), AGE];
const LEASES: &[Column] = &[NAME, field("Holder", "spec.holderIdentity"), AGE];

const RUNTIME_CLASSES: &[Column] = &[NAME, field("Handler", "handler"), AGE];

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
