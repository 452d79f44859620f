//! A bound pod must have a valid record of what it holds, whatever its tenant does to it.

use gpushare_core::record::Record;
use gpushare_core::{NodeName, Placement, names};
use serde_json::{Value, json};

use super::*;
use crate::chaos::judge::overbooked;

const CARD: &str = "GPU-1";

/// A pod on a node, with the record that the extender would give it.
fn bound(namespace: &str) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p0", "namespace": namespace, "uid": "u-1", "annotations": {}},
        "spec": {"nodeName": "node", "containers": [{"name": "c", "resources": {"limits": {
            names::GPU: "1", names::GPU_MEM: "2048"}}}]},
        "status": {"phase": "Running"},
    });
    let dialects = Setup::cards(&[]).dialects();
    let slim = serde_json::from_value(pod.clone()).unwrap();
    let ask = PodFacts::new(&slim, &dialects).ask.unwrap().unwrap();
    let placement = Placement::on_one_card(&ask, &CardId::new(CARD));
    let node = NodeName::new("node");
    let record = Record::new(PodUid::new("u-1"), node, &dialects.classes, &placement);
    pod["metadata"]["annotations"][names::ALLOCATION] = json!(record.encode());
    pod
}

/// What the judge reports after the watch showed these pods.
fn judged(pods: &[Value]) -> Vec<String> {
    let mut notes = Notes {
        sizes: BTreeMap::from([(CardId::new(CARD), 16_384)]),
        ..Notes::default()
    };
    for pod in pods {
        let pod = serde_json::from_value(pod.clone()).unwrap();
        notes.shown(&pod, &Setup::cards(&[]).dialects());
    }
    overbooked(&notes.history, &notes.sizes)
}

#[test]
fn a_bound_pod_with_its_record_is_right() {
    assert_eq!(judged(&[bound("metered")]), [""; 0]);
}

#[test]
fn a_bound_pod_without_a_believable_record_is_found() {
    let annotated = |record: &str| json!({names::ALLOCATION: record});
    for annotations in [json!({}), annotated("{}"), annotated("no record")] {
        let mut pod = bound("plain");
        pod["metadata"]["annotations"] = annotations.clone();
        // Also if the pod had a valid record before.
        for history in [vec![pod.clone()], vec![bound("plain"), pod]] {
            let found = judged(&history);
            assert_eq!(found.len(), 1, "{annotations}: {found:?}");
            let told = found[0].starts_with("plain/p0 (u-1) is bound and nothing proves");
            assert!(told, "{found:?}");
        }
    }
}

#[test]
fn who_is_not_bound_has_ended_or_is_no_tenant_needs_no_record() {
    let without = |namespace: &str| {
        let mut pod = bound(namespace);
        pod["metadata"]["annotations"] = json!({});
        pod
    };
    let mut waiting = without("plain");
    waiting["spec"]["nodeName"] = Value::Null;
    let mut ended = without("plain");
    ended["status"]["phase"] = json!("Failed");
    assert_eq!(
        judged(&[waiting, ended, without("gpushare-system")]),
        [""; 0]
    );
}
