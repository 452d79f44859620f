//! The field numbers of the kinds that kubectl creates from its command line. Data only.

/// One field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) many: Many,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Many {
    One,
    List,
    /// With text keys.
    Map,
}

#[derive(Debug)]
pub(super) enum Kind {
    Text,
    Bytes,
    /// Unset and false are the same.
    Flag,
    /// Unset and false differ.
    ChosenFlag,
    /// Unset and zero are the same.
    Number,
    /// Unset and zero differ.
    ChosenNumber,
    Quantity,
    Time,
    NumberOrText,
    Object(&'static [Field]),
    /// Set by the server; what a client sends is ignored.
    Skipped,
}

use Kind::{
    Bytes, ChosenFlag, ChosenNumber, Flag, Number, NumberOrText, Object, Quantity, Skipped, Text,
    Time,
};

const fn field(number: u64, name: &'static str, many: Many, kind: Kind) -> Field {
    Field {
        number,
        name,
        many,
        kind,
    }
}

const fn one(number: u64, name: &'static str, kind: Kind) -> Field {
    field(number, name, Many::One, kind)
}

const fn list(number: u64, name: &'static str, kind: Kind) -> Field {
    field(number, name, Many::List, kind)
}

const fn map(number: u64, name: &'static str, kind: Kind) -> Field {
    field(number, name, Many::Map, kind)
}

/// The fields of a kind, if it can be read.
pub(super) fn of(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    Some(match (api_version, kind) {
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("v1", "ServiceAccount") => SERVICE_ACCOUNT,
        ("v1", "Service") => SERVICE,
        ("v1", "ResourceQuota") => RESOURCE_QUOTA,
        ("v1", "Pod") => POD,
        ("apps/v1", "Deployment") => DEPLOYMENT,
        ("batch/v1", "Job") => JOB,
        ("batch/v1", "CronJob") => CRON_JOB,
        ("policy/v1", "PodDisruptionBudget") => DISRUPTION_BUDGET,
        ("scheduling.k8s.io/v1", "PriorityClass") => PRIORITY_CLASS,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => ACCESS_REVIEW,
        ("authentication.k8s.io/v1", "SelfSubjectReview") => SUBJECT_REVIEW,
        ("authentication.k8s.io/v1", "TokenRequest") => TOKEN_REQUEST,
        _ => return None,
    })
}

pub(super) const TYPE_META: &[Field] = &[one(1, "apiVersion", Text), one(2, "kind", Text)];

pub(super) const QUANTITY: &[Field] = &[one(1, "string", Text)];

const METADATA: Field = one(1, "metadata", Object(OBJECT_META));

const OBJECT_META: &[Field] = &[
    one(1, "name", Text),
    one(2, "generateName", Text),
    one(3, "namespace", Text),
    one(4, "selfLink", Skipped),
    one(5, "uid", Text),
    one(6, "resourceVersion", Text),
    one(7, "generation", Number),
    one(8, "creationTimestamp", Time),
    one(9, "deletionTimestamp", Time),
    one(10, "deletionGracePeriodSeconds", ChosenNumber),
    map(11, "labels", Text),
    map(12, "annotations", Text),
    list(13, "ownerReferences", Object(OWNER)),
    list(14, "finalizers", Text),
];

const OWNER: &[Field] = &[
    one(1, "kind", Text),
    one(3, "name", Text),
    one(4, "uid", Text),
    one(5, "apiVersion", Text),
    one(6, "controller", ChosenFlag),
    one(7, "blockOwnerDeletion", ChosenFlag),
];

const LABEL_SELECTOR: &[Field] = &[
    map(1, "matchLabels", Text),
    list(2, "matchExpressions", Object(LABEL_RULE)),
];

const LABEL_RULE: &[Field] = &[
    one(1, "key", Text),
    one(2, "operator", Text),
    list(3, "values", Text),
];

const NAMED: &[Field] = &[one(1, "name", Text)];

const NAMESPACE: &[Field] = &[
    METADATA,
    one(2, "spec", Object(&[list(1, "finalizers", Text)])),
    one(3, "status", Skipped),
];

const CONFIG_MAP: &[Field] = &[
    METADATA,
    map(2, "data", Text),
    map(3, "binaryData", Bytes),
    one(4, "immutable", ChosenFlag),
];

const SECRET: &[Field] = &[
    METADATA,
    map(2, "data", Bytes),
    one(3, "type", Text),
    map(4, "stringData", Text),
    one(5, "immutable", ChosenFlag),
];

const SERVICE_ACCOUNT: &[Field] = &[
    METADATA,
    list(3, "imagePullSecrets", Object(NAMED)),
    one(4, "automountServiceAccountToken", ChosenFlag),
];

const SERVICE: &[Field] = &[
    METADATA,
    one(2, "spec", Object(SERVICE_SPEC)),
    one(3, "status", Skipped),
];

const SERVICE_SPEC: &[Field] = &[
    list(1, "ports", Object(SERVICE_PORT)),
    map(2, "selector", Text),
    one(3, "clusterIP", Text),
    one(4, "type", Text),
    list(5, "externalIPs", Text),
    one(7, "sessionAffinity", Text),
    one(8, "loadBalancerIP", Text),
    one(10, "externalName", Text),
    one(11, "externalTrafficPolicy", Text),
    one(12, "healthCheckNodePort", Number),
    one(13, "publishNotReadyAddresses", Flag),
    list(18, "clusterIPs", Text),
];

const SERVICE_PORT: &[Field] = &[
    one(1, "name", Text),
    one(2, "protocol", Text),
    one(3, "port", Number),
    one(4, "targetPort", NumberOrText),
    one(5, "nodePort", Number),
];

const RESOURCE_QUOTA: &[Field] = &[
    METADATA,
    one(
        2,
        "spec",
        Object(&[map(1, "hard", Quantity), list(2, "scopes", Text)]),
    ),
    one(3, "status", Skipped),
];

const POD: &[Field] = &[
    METADATA,
    one(2, "spec", Object(POD_SPEC)),
    one(3, "status", Skipped),
];

const POD_TEMPLATE: &[Field] = &[METADATA, one(2, "spec", Object(POD_SPEC))];

const POD_SPEC: &[Field] = &[
    list(2, "containers", Object(CONTAINER)),
    one(3, "restartPolicy", Text),
    one(4, "terminationGracePeriodSeconds", ChosenNumber),
    one(5, "activeDeadlineSeconds", ChosenNumber),
    one(6, "dnsPolicy", Text),
    map(7, "nodeSelector", Text),
    one(8, "serviceAccountName", Text),
    one(9, "serviceAccount", Text),
    one(10, "nodeName", Text),
    one(11, "hostNetwork", Flag),
    one(12, "hostPID", Flag),
    one(13, "hostIPC", Flag),
    one(14, "securityContext", Object(&[])),
    list(15, "imagePullSecrets", Object(NAMED)),
    one(16, "hostname", Text),
    one(17, "subdomain", Text),
    one(19, "schedulerName", Text),
    list(20, "initContainers", Object(CONTAINER)),
    list(22, "tolerations", Object(TOLERATION)),
    one(24, "priorityClassName", Text),
];

const TOLERATION: &[Field] = &[
    one(1, "key", Text),
    one(2, "operator", Text),
    one(3, "value", Text),
    one(4, "effect", Text),
    one(5, "tolerationSeconds", ChosenNumber),
];

const CONTAINER: &[Field] = &[
    one(1, "name", Text),
    one(2, "image", Text),
    list(3, "command", Text),
    list(4, "args", Text),
    one(5, "workingDir", Text),
    list(6, "ports", Object(CONTAINER_PORT)),
    list(7, "env", Object(VARIABLE)),
    one(8, "resources", Object(RESOURCES)),
    one(13, "terminationMessagePath", Text),
    one(14, "imagePullPolicy", Text),
    one(16, "stdin", Flag),
    one(17, "stdinOnce", Flag),
    one(18, "tty", Flag),
    one(20, "terminationMessagePolicy", Text),
];

const CONTAINER_PORT: &[Field] = &[
    one(1, "name", Text),
    one(2, "hostPort", Number),
    one(3, "containerPort", Number),
    one(4, "protocol", Text),
    one(5, "hostIP", Text),
];

const VARIABLE: &[Field] = &[one(1, "name", Text), one(2, "value", Text)];

const RESOURCES: &[Field] = &[map(1, "limits", Quantity), map(2, "requests", Quantity)];

const DEPLOYMENT: &[Field] = &[
    METADATA,
    one(2, "spec", Object(DEPLOYMENT_SPEC)),
    one(3, "status", Skipped),
];

const DEPLOYMENT_SPEC: &[Field] = &[
    one(1, "replicas", ChosenNumber),
    one(2, "selector", Object(LABEL_SELECTOR)),
    one(3, "template", Object(POD_TEMPLATE)),
    one(4, "strategy", Object(STRATEGY)),
    one(5, "minReadySeconds", Number),
    one(6, "revisionHistoryLimit", ChosenNumber),
    one(7, "paused", Flag),
    one(9, "progressDeadlineSeconds", ChosenNumber),
];

const STRATEGY: &[Field] = &[
    one(1, "type", Text),
    one(
        2,
        "rollingUpdate",
        Object(&[
            one(1, "maxUnavailable", NumberOrText),
            one(2, "maxSurge", NumberOrText),
        ]),
    ),
];

const JOB: &[Field] = &[
    METADATA,
    one(2, "spec", Object(JOB_SPEC)),
    one(3, "status", Skipped),
];

const JOB_SPEC: &[Field] = &[
    one(1, "parallelism", ChosenNumber),
    one(2, "completions", ChosenNumber),
    one(3, "activeDeadlineSeconds", ChosenNumber),
    one(4, "selector", Object(LABEL_SELECTOR)),
    one(5, "manualSelector", ChosenFlag),
    one(6, "template", Object(POD_TEMPLATE)),
    one(7, "backoffLimit", ChosenNumber),
    one(8, "ttlSecondsAfterFinished", ChosenNumber),
    one(9, "completionMode", Text),
    one(10, "suspend", ChosenFlag),
    one(14, "podReplacementPolicy", Text),
];

const CRON_JOB: &[Field] = &[
    METADATA,
    one(2, "spec", Object(CRON_JOB_SPEC)),
    one(3, "status", Skipped),
];

const CRON_JOB_SPEC: &[Field] = &[
    one(1, "schedule", Text),
    one(2, "startingDeadlineSeconds", ChosenNumber),
    one(3, "concurrencyPolicy", Text),
    one(4, "suspend", ChosenFlag),
    one(
        5,
        "jobTemplate",
        Object(&[METADATA, one(2, "spec", Object(JOB_SPEC))]),
    ),
    one(6, "successfulJobsHistoryLimit", ChosenNumber),
    one(7, "failedJobsHistoryLimit", ChosenNumber),
    one(8, "timeZone", Text),
];

const DISRUPTION_BUDGET: &[Field] = &[
    METADATA,
    one(
        2,
        "spec",
        Object(&[
            one(1, "minAvailable", NumberOrText),
            one(2, "selector", Object(LABEL_SELECTOR)),
            one(3, "maxUnavailable", NumberOrText),
            one(4, "unhealthyPodEvictionPolicy", Text),
        ]),
    ),
    one(3, "status", Skipped),
];

const PRIORITY_CLASS: &[Field] = &[
    METADATA,
    one(2, "value", ChosenNumber),
    one(3, "globalDefault", Flag),
    one(4, "description", Text),
    one(5, "preemptionPolicy", Text),
];

const ACCESS_REVIEW: &[Field] = &[
    METADATA,
    one(
        2,
        "spec",
        Object(&[
            one(1, "resourceAttributes", Object(RESOURCE_ATTRIBUTES)),
            one(
                2,
                "nonResourceAttributes",
                Object(&[one(1, "path", Text), one(2, "verb", Text)]),
            ),
        ]),
    ),
    one(3, "status", Skipped),
];

const RESOURCE_ATTRIBUTES: &[Field] = &[
    one(1, "namespace", Text),
    one(2, "verb", Text),
    one(3, "group", Text),
    one(4, "version", Text),
    one(5, "resource", Text),
    one(6, "subresource", Text),
    one(7, "name", Text),
];

const SUBJECT_REVIEW: &[Field] = &[METADATA, one(2, "status", Skipped)];

const TOKEN_REQUEST: &[Field] = &[
    METADATA,
    one(
        2,
        "spec",
        Object(&[
            list(1, "audiences", Text),
            one(4, "expirationSeconds", ChosenNumber),
        ]),
    ),
    one(3, "status", Skipped),
];
