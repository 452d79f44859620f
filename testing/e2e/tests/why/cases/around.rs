//! What kube-scheduler checks before it asks us, what happens before any scheduler, and pods that workloads create.

use e2e::manifest::gpushare;
use e2e::paper::PaperNode;
use serde_json::{Value, json};

use super::{Asked, Case, alone, beside, case, deployment, node, pod, quota, spec, subject, with};

pub(super) fn all() -> Vec<Case> {
    [placing(), totals(), before_nodes(), owned()]
        .into_iter()
        .flatten()
        .collect()
}

/// A pod that wants little, and has this field in its spec.
fn small(field: &str, value: Value) -> Value {
    spec(subject(gpushare(1024)), field, value)
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
    let on = |name, spec: Value| case(name, changed(spec), vec![], subject(gpushare(1024)));
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    vec![
        on("cordoned", json!({"unschedulable": true})).is("cordoned", "cordoned"),
        on("taint", json!({"taints": [taint.clone()]})).is("taint", "gpus=only:NoSchedule"),
        on("not-ready", json!({"taints": [not_ready]})).is("not-ready", "not ready"),
        alone("selector", small("nodeSelector", json!({"pool": "train"})))
            .is("node-selector", "pool=train"),
        alone("affinity", small("affinity", affinity)).is("node-affinity", "node affinity"),
        case(
            "cordoned-and-tainted",
            changed(json!({"unschedulable": true, "taints": [taint]})),
            vec![],
            small("nodeSelector", json!({"pool": "train"})),
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
        alone("cpu", with("subject", &asks("cpu", "100")))
            .is("total", "too little cpu: 100 needed, 8 of 8 left"),
        beside(
            "memory",
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
    let volume = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    vec![
        alone(
            "gate",
            small("schedulingGates", json!([{"name": "example.com/hold"}])),
        )
        .is("scheduling-gate", "example.com/hold"),
        alone("scheduler", small("schedulerName", json!("nobody")))
            .nobody_looks()
            .is("no-scheduler", "a scheduler named nobody"),
        alone("no-such-node", small("nodeName", json!("atlantis")))
            .asked(Asked::File)
            .is("no-such-node", "atlantis"),
        alone("by-hand", small("nodeName", json!("a")))
            .asked(Asked::File)
            .is("past-scheduler", "no card was chosen"),
        alone("volume", small("volumes", volume)).is("no-volume-claim", "volume claim data"),
        alone("priority-class", small("priorityClassName", json!("paper")))
            .asked(Asked::File)
            .is("no-priority-class", "paper"),
        beside(
            "quota-of-a-file",
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
        beside(
            "quota-of-a-deployment",
            vec![quota(json!({"requests.gpushare.io/gpu-mem": "2048"}))],
            deployment(gpushare(4096)),
        )
        .asked(Asked::Workload("deployment/subject"))
        .is("quota", "requests.gpushare.io/gpu-mem"),
        beside(
            "deployment",
            vec![pod("holder", gpushare(12288))],
            deployment(gpushare(8192)),
        )
        .asked(Asked::Workload("deployment/subject"))
        .is("no-room", "no card has 8192 MiB"),
    ]
}
