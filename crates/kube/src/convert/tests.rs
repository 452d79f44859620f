use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::request::{PodAsk, Want};
use gpushare_core::{Amounts, CardId, Placement};
use serde_json::{Value, json};

use super::*;

fn facts(pod: Value) -> PodFacts {
    let pod: slim::Pod = serde_json::from_value(pod).unwrap();
    PodFacts::new(&pod, &gpu::dialects(AliyunUnit::GiB))
}

fn pod(limits: &Value) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "team", "uid": "u-1", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    })
}

#[test]
fn a_pod_of_the_predecessor_is_read_in_its_unit() {
    let ask = facts(pod(&json!({"aliyun.com/gpu-mem": "3"})))
        .ask
        .unwrap()
        .unwrap();
    assert_eq!(
        ask.containers[0].want,
        Want::share(Amounts::of(gpu::MEMORY, 3072))
    );
}

#[test]
fn null_lists_and_numeric_quantities_are_accepted() {
    let mut value = pod(&json!({"gpushare.io/gpu": 1, "gpushare.io/gpu-mem": 512}));
    value["spec"]["initContainers"] = Value::Null;
    value["metadata"]["managedFields"] = json!([{"fieldsV1": {"f:spec": {}}}]);
    let ask = facts(value).ask.unwrap().unwrap();
    assert_eq!(
        ask.containers[0].want,
        Want::share(Amounts::of(gpu::MEMORY, 512))
    );
}

#[test]
fn a_pod_without_our_resources_asks_nothing() {
    assert_eq!(facts(pod(&json!({"cpu": "1"}))).ask, Ok(None));
}

fn recorded(record_uid: &str, record_node: &str, card_memory: u64) -> PodFacts {
    facts(recorded_pod(record_uid, record_node, card_memory))
}

fn recorded_pod(record_uid: &str, record_node: &str, card_memory: u64) -> Value {
    let mut value = pod(&json!({"aliyun.com/gpu-mem": "3"}));
    let mut asking = facts(value.clone())
        .ask
        .unwrap()
        .unwrap()
        .containers
        .to_vec();
    asking[0].want = Want::share(Amounts::of(gpu::MEMORY, card_memory));
    let ask = PodAsk {
        containers: asking.into(),
    };
    let placement = Placement::on_one_card(&ask, &CardId::new("GPU-1"));
    let record = Record::new(
        PodUid::new(record_uid),
        NodeName::new(record_node),
        &gpu::classes(),
        &placement,
    );
    value["metadata"]["annotations"][names::ALLOCATION] = json!(record.encode());
    value["spec"]["nodeName"] = json!("n1");
    value
}

#[test]
fn a_record_that_agrees_with_its_pod_is_a_booking() {
    let bound = recorded("u-1", "n1", 3072)
        .bound(&gpu::classes())
        .unwrap()
        .unwrap();
    assert_eq!(
        bound.placement.containers[0].shares[0].card,
        CardId::new("GPU-1")
    );
}

/// Each of these annotations makes the request of a pod without a node an error.
const SENSELESS_CHOICES: [(&str, &str); 5] = [
    (names::POLICY, "x"),
    (names::CARD_MODELS, ","),
    (names::CARD_IDS, ""),
    (names::EXCLUDE_CARD_IDS, ","),
    (names::EXCLUDE_CARD_MODELS, "--"),
];

#[test]
fn what_a_bound_pod_holds_does_not_depend_on_annotations_that_choose() {
    let untouched = booking(&recorded_pod("u-1", "n1", 3072));
    for (name, value) in SENSELESS_CHOICES {
        let mut annotated = recorded_pod("u-1", "n1", 3072);
        annotated["metadata"]["annotations"][name] = json!(value);
        assert_eq!(booking(&annotated), untouched, "{name}={value}");
    }
}

#[test]
fn a_choice_that_makes_no_sense_is_an_error_until_the_pod_is_bound() {
    for (name, value) in SENSELESS_CHOICES {
        let mut waiting = pod(&json!({"aliyun.com/gpu-mem": "3"}));
        waiting["metadata"]["annotations"][name] = json!(value);
        let violations = facts(waiting).ask.unwrap_err();
        assert!(violations.to_string().contains(name), "{violations}");
    }
}

fn booking(pod: &Value) -> (PodAsk, Placement) {
    let bound = facts(pod.clone()).bound(&gpu::classes());
    let bound = bound.expect("it asks for cards and has a record");
    let bound = bound.expect("the record agrees with the pod");
    (bound.ask, bound.placement)
}

#[test]
fn a_record_forged_for_another_pod_node_or_amount_is_not_believed() {
    let class = gpu::classes();
    let error = |facts: PodFacts| facts.bound(&class).unwrap().unwrap_err();
    assert_eq!(
        error(recorded("u-2", "n1", 3072)),
        RecordError::OtherPod(PodUid::new("u-2"))
    );
    assert!(matches!(
        error(recorded("u-1", "n2", 3072)),
        RecordError::OtherNode { .. }
    ));
    assert_eq!(
        error(recorded("u-1", "n1", 4096)),
        RecordError::OtherRequest("c".into())
    );
}

#[test]
fn what_a_record_says_of_classes_unknown_here_is_left_out_and_the_rest_is_believed() {
    let mut value = pod(&json!({"aliyun.com/gpu-mem": "3", "rdma/hca": "1"}));
    let gpu = json!({"name": "c", "class": "gpu", "cards": [{"id": "GPU-1", "amounts": {"memory": 3072}}]});
    let rdma = json!({"name": "c", "class": "rdma", "cards": [{"id": "mlx5_0"}]});
    let mut record = json!({"version": 2, "pod": "u-1", "node": "n1", "containers": [gpu, rdma]});
    value["metadata"]["annotations"][names::ALLOCATION] = json!(record.to_string());
    value["spec"]["nodeName"] = json!("n1");
    let bound = facts(value.clone()).bound(&gpu::classes());
    let placement = bound.unwrap().unwrap().placement;
    assert_eq!(placement.cards(), [&CardId::new("GPU-1")]);

    record["containers"][1]["class"] = json!("gpu");
    value["metadata"]["annotations"][names::ALLOCATION] = json!(record.to_string());
    let twice = facts(value).bound(&gpu::classes()).unwrap();
    assert_eq!(twice.unwrap_err(), RecordError::OtherRequest("c".into()));
}

#[test]
fn a_malformed_record_is_an_error_and_not_a_panic() {
    for text in [
        "",
        "{",
        "[]",
        "{\"version\":9}",
        "null",
        &"[".repeat(10_000),
    ] {
        let mut value = pod(&json!({"aliyun.com/gpu-mem": "3"}));
        value["metadata"]["annotations"][names::ALLOCATION] = json!(text);
        value["spec"]["nodeName"] = json!("n1");
        assert!(
            facts(value).bound(&gpu::classes()).unwrap().is_err(),
            "{text:.20}"
        );
    }
}

#[test]
fn a_pod_with_a_node_and_no_record_of_its_own_came_past_the_scheduler() {
    let on_node = |limits: Value, record: Option<&str>| {
        let mut pod = pod(&limits);
        pod["spec"]["nodeName"] = json!("n1");
        pod["metadata"]["annotations"] =
            record.map_or(json!({}), |text| json!({names::ALLOCATION: text}));
        facts(pod)
    };
    let share = || json!({"aliyun.com/gpu-mem": "3"});
    let incomplete = json!({"gpushare.io/gpu-mem": "3"});
    let past = [
        ("no record", on_node(share(), None)),
        ("an empty one", on_node(share(), Some(""))),
        ("nonsense", on_node(share(), Some("x"))),
        ("an incomplete request", on_node(incomplete, None)),
        ("another's record", recorded("u-2", "n1", 3072)),
    ];
    for (what, facts) in past {
        assert!(facts.is_past_scheduler(), "{what}");
    }
    let newer = r#"{"version": 1000, "pod": "u-1", "node": "n1", "containers": []}"#;
    let placed = [
        ("a record", recorded("u-1", "n1", 3072)),
        ("its own for another request", recorded("u-1", "n1", 1)),
        ("one of a newer gpushare", on_node(share(), Some(newer))),
        ("no request", on_node(json!({"cpu": "1"}), None)),
        ("no node", facts(pod(&share()))),
    ];
    for (what, facts) in placed {
        assert!(!facts.is_past_scheduler(), "{what}");
    }
}
