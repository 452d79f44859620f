//! The table of served resources. Routing, discovery, storage and the generic verbs read it and name no resource
//! themselves, so serving one more kind is one more row. Rules of single kinds are elsewhere.

use crate::table::Column;

/// One served resource at one API version.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) short_names: &'static [&'static str],
    /// Groups of kinds that kubectl addresses by one word, such as `all`.
    pub(crate) categories: &'static [&'static str],
    pub(crate) subresources: &'static [Subresource],
    /// Fields a `fieldSelector` may name besides `metadata.name` and `metadata.namespace`.
    pub(crate) selectable: &'static [&'static str],
    pub(crate) names: NameRule,
    pub(crate) habits: Habits,
    /// Columns of custom resources, between their name and their age.
    pub(crate) columns: &'static [Column],
}

/// Which names the API accepts for the objects of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label,
    /// Anything that can stand in a URL path.
    PathSegment,
}

/// How the generic verbs treat a resource, where resources differ.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a row, not a state machine"
)]
pub(crate) struct Habits {
    /// PUT without a resourceVersion overwrites.
    pub(crate) unconditional_update: bool,
    /// PUT to a missing name creates.
    pub(crate) create_on_update: bool,
    /// DELETE answers with the object instead of a Status.
    pub(crate) returns_deleted: bool,
    /// `metadata.generation` counts changes of the spec.
    pub(crate) generation: bool,
    /// Create discards a status sent by the client.
    pub(crate) resets_status_on_create: bool,
}

/// A part of an object, or an action on it, with a path of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    Binding,
    Eviction,
    Token,
    Finalize,
    Log,
    Scale,
}

impl Subresource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Token => "token",
            Self::Finalize => "finalize",
            Self::Log => "log",
            Self::Scale => "scale",
        }
    }
}

impl Resource {
    /// `pods`, `deployments.apps`: as error messages name a resource.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<Subresource> {
        self.subresources.iter().copied().find(|s| s.name() == name)
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}

const PLAIN: Habits = Habits {
    unconditional_update: true,
    create_on_update: false,
    returns_deleted: false,
    generation: false,
    resets_status_on_create: true,
};
const WORKLOAD: Habits = Habits {
    generation: true,
    ..PLAIN
};
const ECHOED: Habits = Habits {
    returns_deleted: true,
    ..PLAIN
};

const ALL: &[&str] = &["all"];
const STATUS: &[Subresource] = &[Subresource::Status];
const SCALED: &[Subresource] = &[Subresource::Status, Subresource::Scale];
const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const EVENTS_V1_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

const fn row(group: &'static str, version: &'static str, plural: &'static str) -> Resource {
    Resource {
        group,
        version,
        plural,
        singular: "",
        kind: "",
        namespaced: true,
        short_names: &[],
        categories: &[],
        subresources: &[],
        selectable: &[],
        names: NameRule::Subdomain,
        habits: PLAIN,
        columns: &[],
    }
}

/// Every resource served unless the caller adds more.
pub(crate) const BUILT_IN: &[Resource] = &[
    Resource {
        singular: "namespace",
        kind: "Namespace",
        namespaced: false,
        short_names: &["ns"],
        subresources: &[Subresource::Status, Subresource::Finalize],
        selectable: &["status.phase"],
        names: NameRule::Label,
        habits: ECHOED,
        ..row("", "v1", "namespaces")
    },
    Resource {
        singular: "node",
        kind: "Node",
        namespaced: false,
        short_names: &["no"],
        subresources: STATUS,
        selectable: &["spec.unschedulable"],
        // A kubelet registers itself with a status, so create keeps it.
        habits: Habits {
            resets_status_on_create: false,
            ..PLAIN
        },
        ..row("", "v1", "nodes")
    },
    Resource {
        singular: "pod",
        kind: "Pod",
        short_names: &["po"],
        categories: ALL,
        subresources: &[
            Subresource::Status,
            Subresource::Binding,
            Subresource::Eviction,
            Subresource::Log,
        ],
        selectable: POD_FIELDS,
        habits: Habits {
            returns_deleted: true,
            ..WORKLOAD
        },
        ..row("", "v1", "pods")
    },
    Resource {
        singular: "event",
        kind: "Event",
        short_names: &["ev"],
        selectable: EVENT_FIELDS,
        names: NameRule::PathSegment,
        habits: Habits {
            create_on_update: true,
            ..PLAIN
        },
        ..row("", "v1", "events")
    },
    Resource {
        singular: "configmap",
        kind: "ConfigMap",
        short_names: &["cm"],
        ..row("", "v1", "configmaps")
    },
    Resource {
        singular: "secret",
        kind: "Secret",
        selectable: &["type"],
        ..row("", "v1", "secrets")
    },
    Resource {
        singular: "service",
        kind: "Service",
        short_names: &["svc"],
        categories: ALL,
        subresources: STATUS,
        selectable: &["spec.clusterIP", "spec.type"],
        names: NameRule::Label,
        habits: Habits {
            create_on_update: true,
            ..ECHOED
        },
        ..row("", "v1", "services")
    },
    Resource {
        singular: "persistentvolumeclaim",
        kind: "PersistentVolumeClaim",
        short_names: &["pvc"],
        subresources: STATUS,
        habits: ECHOED,
        ..row("", "v1", "persistentvolumeclaims")
    },
    Resource {
        singular: "serviceaccount",
        kind: "ServiceAccount",
        short_names: &["sa"],
        subresources: &[Subresource::Token],
        habits: ECHOED,
        ..row("", "v1", "serviceaccounts")
    },
    Resource {
        singular: "resourcequota",
        kind: "ResourceQuota",
        short_names: &["quota"],
        subresources: STATUS,
        habits: ECHOED,
        ..row("", "v1", "resourcequotas")
    },
    Resource {
        singular: "deployment",
        kind: "Deployment",
        short_names: &["deploy"],
        categories: ALL,
        subresources: SCALED,
        habits: WORKLOAD,
        ..row("apps", "v1", "deployments")
    },
    Resource {
        singular: "replicaset",
        kind: "ReplicaSet",
        short_names: &["rs"],
        categories: ALL,
        subresources: SCALED,
        selectable: &["status.replicas"],
        habits: WORKLOAD,
        ..row("apps", "v1", "replicasets")
    },
    Resource {
        singular: "statefulset",
        kind: "StatefulSet",
        short_names: &["sts"],
        categories: ALL,
        subresources: SCALED,
        habits: WORKLOAD,
        ..row("apps", "v1", "statefulsets")
    },
    Resource {
        singular: "daemonset",
        kind: "DaemonSet",
        short_names: &["ds"],
        categories: ALL,
        subresources: STATUS,
        habits: WORKLOAD,
        ..row("apps", "v1", "daemonsets")
    },
    Resource {
        singular: "job",
        kind: "Job",
        categories: ALL,
        subresources: STATUS,
        selectable: &["status.successful"],
        habits: WORKLOAD,
        ..row("batch", "v1", "jobs")
    },
    Resource {
        singular: "cronjob",
        kind: "CronJob",
        short_names: &["cj"],
        categories: ALL,
        subresources: STATUS,
        habits: WORKLOAD,
        ..row("batch", "v1", "cronjobs")
    },
    Resource {
        singular: "lease",
        kind: "Lease",
        habits: Habits {
            unconditional_update: false,
            create_on_update: true,
            ..PLAIN
        },
        ..row("coordination.k8s.io", "v1", "leases")
    },
    Resource {
        singular: "poddisruptionbudget",
        kind: "PodDisruptionBudget",
        short_names: &["pdb"],
        subresources: STATUS,
        habits: Habits {
            unconditional_update: false,
            ..WORKLOAD
        },
        ..row("policy", "v1", "poddisruptionbudgets")
    },
    Resource {
        singular: "runtimeclass",
        kind: "RuntimeClass",
        namespaced: false,
        habits: Habits {
            unconditional_update: false,
            ..PLAIN
        },
        ..row("node.k8s.io", "v1", "runtimeclasses")
    },
    Resource {
        singular: "mutatingwebhookconfiguration",
        kind: "MutatingWebhookConfiguration",
        namespaced: false,
        habits: WORKLOAD,
        ..row(
            "admissionregistration.k8s.io",
            "v1",
            "mutatingwebhookconfigurations",
        )
    },
    Resource {
        singular: "validatingwebhookconfiguration",
        kind: "ValidatingWebhookConfiguration",
        namespaced: false,
        habits: WORKLOAD,
        ..row(
            "admissionregistration.k8s.io",
            "v1",
            "validatingwebhookconfigurations",
        )
    },
    Resource {
        singular: "priorityclass",
        kind: "PriorityClass",
        namespaced: false,
        short_names: &["pc"],
        habits: WORKLOAD,
        ..row("scheduling.k8s.io", "v1", "priorityclasses")
    },
    Resource {
        singular: "event",
        kind: "Event",
        short_names: &["ev"],
        selectable: EVENTS_V1_FIELDS,
        habits: Habits {
            create_on_update: true,
            ..PLAIN
        },
        ..row("events.k8s.io", "v1", "events")
    },
];
