//! Pods that wait, each for one reason or for several at once.

use e2e::manifest::{and, annotated, gpushare};
use e2e::paper::{NAME_LABEL, PaperNode};
use serde_json::{Value, json};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) nodes: Vec<PaperNode>,
    /// Created before, in this order; pods among them find their place.
    pub(crate) before: Vec<Value>,
    pub(crate) subject: Value,
    pub(crate) asked: Asked,
    /// No scheduler will ever say anything about the pod.
    pub(crate) nobody_looks: bool,
    pub(crate) reason: &'static str,
    /// A part of the message.
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

/// A pod whose one container has these resources.
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
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard}})
}

pub(crate) fn all() -> Vec<Case> {
    [
        cards(),
        requests(),
        placing(),
        totals(),
        before_nodes(),
        owned(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn cards() -> Vec<Case> {
    let holds = |mib| vec![pod("holder", gpushare(mib))];
    let whole = json!({"gpushare.io/gpu": 1});
    let mut sick = node(&[16384]);
    sick.healthy = false;
    vec![
        case(
            "room",
            vec![node(&[16384])],
            holds(12288),
            subject(gpushare(8192)),
        )
        .is(
            "no-room",
            "no card has 8192 MiB of memory free, the most is 4096",
        ),
        case(
            "fragments",
            vec![node(&[8192]), PaperNode::new("b", &[8192])],
            vec![
                on(pod("one", gpushare(5120)), "a"),
                on(pod("two", gpushare(5120)), "b"),
            ],
            subject(gpushare(6144)),
        )
        .is(
            "no-room",
            "6144 MiB of memory are free in all, but scattered over 2 cards",
        ),
        case(
            "whole",
            vec![node(&[16384])],
            holds(1024),
            subject(whole.clone()),
        )
        .is("no-room", "1 unused card needed, 0 free"),
        case(
            "two-holders",
            vec![node(&[16384])],
            vec![pod("one", gpushare(1024)), pod("two", gpushare(1024))],
            subject(whole),
        )
        .is("no-room", "1 unused card needed"),
        case(
            "compute",
            vec![node(&[16384])],
            vec![pod(
                "holder",
                and(gpushare(1024), "gpushare.io/gpu-core", 80),
            )],
            subject(and(gpushare(1024), "gpushare.io/gpu-core", 50)),
        )
        .is("no-room", "no card has 50 % of core free, the most is 20"),
        case(
            "too-large",
            vec![node(&[16384])],
            vec![],
            subject(gpushare(32768)),
        )
        .is("cards-too-small", "no card has 32768 MiB of memory in all"),
        case(
            "too-many",
            vec![node(&[16384])],
            vec![],
            subject(json!({"gpushare.io/gpu": 2, "gpushare.io/gpu-mem": 1024})),
        )
        .is("cards-too-small", "2 cards needed, the node has 1"),
        case("sick", vec![sick], vec![], subject(gpushare(1024)))
            .is("card-health", "the cards that would do are unhealthy"),
        case(
            "model",
            vec![node(&[16384])],
            vec![],
            annotated(subject(gpushare(1024)), "gpushare.io/card-models", "H100"),
        )
        .is("card-selectors", "selectors exclude"),
        case(
            "card-id",
            vec![node(&[16384])],
            vec![],
            annotated(subject(gpushare(1024)), "gpushare.io/card-ids", "GPU-none"),
        )
        .is("card-selectors", "selectors exclude"),
        case(
            "aliyun-room",
            vec![node(&[16384])],
            vec![pod("holder", json!({"aliyun.com/gpu-mem": 12}))],
            subject(json!({"aliyun.com/gpu-mem": 8})),
        )
        .is("no-room", "no card has 8192 MiB"),
        case(
            "tencent-room",
            vec![node(&[16384])],
            vec![pod("holder", gpushare(12288))],
            subject(json!({"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 32})),
        )
        .is("no-room", "no card has 8192 MiB"),
    ]
}

fn requests() -> Vec<Case> {
    let nodes = || vec![node(&[16384])];
    vec![
        case(
            "unit",
            nodes(),
            vec![],
            subject(json!({"gpushare.io/gpu": 1, "gpushare.io/gpu-mem": "4Gi"})),
        )
        .is("invalid-request", "the unit is MiB"),
        case(
            "no-count",
            nodes(),
            vec![],
            subject(json!({"gpushare.io/gpu-mem": 1024})),
        )
        .is("invalid-request", "is missing"),
        case(
            "dialects",
            nodes(),
            vec![],
            subject(and(gpushare(1024), "aliyun.com/gpu-mem", 1)),
        )
        .is("invalid-request", "stands beside"),
        case(
            "no-policy",
            nodes(),
            vec![],
            annotated(subject(gpushare(1024)), "gpushare.io/policy", "nicest"),
        )
        .is("invalid-request", "is no policy"),
    ]
}

fn placing() -> Vec<Case> {
    let changed = |spec: Value| {
        let mut node = node(&[16384]);
        node.spec = spec;
        vec![node]
    };
    let taint = json!({"key": "gpus", "value": "only", "effect": "NoSchedule"});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["mars"]}]}]}}});
    vec![
        case(
            "cordoned",
            changed(json!({"unschedulable": true})),
            vec![],
            subject(gpushare(1024)),
        )
        .is("cordoned", "cordoned"),
        case(
            "taint",
            changed(json!({"taints": [taint.clone()]})),
            vec![],
            subject(gpushare(1024)),
        )
        .is("taint", "gpus=only:NoSchedule"),
        case(
            "not-ready",
            changed(json!({"taints": [
                {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]})),
            vec![],
            subject(gpushare(1024)),
        )
        .is("not-ready", "not ready"),
        case(
            "selector",
            vec![node(&[16384])],
            vec![],
            spec(
                subject(gpushare(1024)),
                "nodeSelector",
                json!({"pool": "train"}),
            ),
        )
        .is("node-selector", "pool=train"),
        case(
            "affinity",
            vec![node(&[16384])],
            vec![],
            spec(subject(gpushare(1024)), "affinity", affinity),
        )
        .is("node-affinity", "node affinity"),
        case(
            "cordoned-and-tainted",
            changed(json!({"unschedulable": true, "taints": [taint]})),
            vec![],
            spec(
                subject(gpushare(1024)),
                "nodeSelector",
                json!({"pool": "train"}),
            ),
        )
        .is("cordoned", "cordoned; the taint gpus=only:NoSchedule"),
        case(
            "full-and-cordoned",
            vec![node(&[8192]), {
                let mut other = PaperNode::new("b", &[16384]);
                other.spec = json!({"unschedulable": true});
                other
            }],
            vec![pod("holder", gpushare(6144))],
            subject(gpushare(4096)),
        )
        .is("no-room", "The others: b: cordoned"),
    ]
}

fn totals() -> Vec<Case> {
    let asks = |resource: &str, amount: &str| {
        let requests = json!({resource: amount});
        json!({"requests": requests, "limits": gpushare(1024)})
    };
    let mut silent = node(&[16384]);
    silent.offers = false;
    let mut small = node(&[16384]);
    small.pods = "1";
    vec![
        case(
            "cpu",
            vec![node(&[16384])],
            vec![],
            with("subject", &asks("cpu", "100")),
        )
        .is("total", "too little cpu: 100 needed, 8 of 8 left"),
        case(
            "memory",
            vec![node(&[16384])],
            vec![with("holder", &json!({"requests": {"memory": "60Gi"}}))],
            with("subject", &asks("memory", "8Gi")),
        )
        .is(
            "total",
            "too little memory: 8192Mi needed, 4096Mi of 65536Mi left",
        ),
        case(
            "pods",
            vec![small],
            vec![pod("holder", gpushare(1024))],
            subject(gpushare(1024)),
        )
        .is("total", "too little pods"),
        case("not-offered", vec![silent], vec![], subject(gpushare(1024)))
            .is("not-offered", "is not offered"),
    ]
}

fn before_nodes() -> Vec<Case> {
    let nodes = || vec![node(&[16384])];
    let volume = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    vec![
        case(
            "gate",
            nodes(),
            vec![],
            spec(
                subject(gpushare(1024)),
                "schedulingGates",
                json!([{"name": "example.com/hold"}]),
            ),
        )
        .is("scheduling-gate", "example.com/hold"),
        case(
            "scheduler",
            nodes(),
            vec![],
            spec(subject(gpushare(1024)), "schedulerName", json!("nobody")),
        )
        .nobody_looks()
        .is("no-scheduler", "a scheduler named nobody"),
        case(
            "no-such-node",
            nodes(),
            vec![],
            spec(subject(gpushare(1024)), "nodeName", json!("atlantis")),
        )
        .nobody_looks()
        .is("no-such-node", "atlantis"),
        case(
            "by-hand",
            nodes(),
            vec![],
            spec(subject(gpushare(1024)), "nodeName", json!("a")),
        )
        .nobody_looks()
        .is("past-scheduler", "no card was chosen"),
        case(
            "volume",
            nodes(),
            vec![],
            spec(subject(gpushare(1024)), "volumes", volume),
        )
        .is("no-volume-claim", "volume claim data"),
        case(
            "priority-class",
            nodes(),
            vec![],
            spec(subject(gpushare(1024)), "priorityClassName", json!("paper")),
        )
        .asked(Asked::File)
        .is("no-priority-class", "paper"),
        case(
            "quota-of-a-file",
            nodes(),
            vec![
                quota(json!({"requests.gpushare.io/gpu-mem": "4096"})),
                pod("holder", gpushare(1024)),
            ],
            subject(gpushare(4096)),
        )
        .asked(Asked::File)
        .is(
            "quota",
            "4096 of requests.gpushare.io/gpu-mem, and 1024 of 4096 are used",
        ),
    ]
}

fn owned() -> Vec<Case> {
    vec![
        case(
            "quota-of-a-deployment",
            vec![node(&[16384])],
            vec![quota(json!({"requests.gpushare.io/gpu-mem": "2048"}))],
            deployment(gpushare(4096)),
        )
        .asked(Asked::Workload("deployment/subject"))
        .is("quota", "requests.gpushare.io/gpu-mem"),
        case(
            "deployment",
            vec![node(&[16384])],
            vec![pod("holder", gpushare(12288))],
            deployment(gpushare(8192)),
        )
        .asked(Asked::Workload("deployment/subject"))
        .is("no-room", "no card has 8192 MiB"),
    ]
}
