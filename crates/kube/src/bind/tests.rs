use gpushare_core::gpu::{self, AliyunUnit};
use serde_json::Value;

use super::*;

const RECORD: &str = "our record";

fn our_bind() -> Bind {
    Bind {
        pod: PodRef {
            uid: "u-1".into(),
            namespace: "team".to_owned(),
            name: "p".to_owned(),
        },
        version: "7".to_owned(),
        node: "n1".into(),
        annotations: BTreeMap::from([(names::ALLOCATION.to_owned(), RECORD.to_owned())]),
        timeout: Duration::from_secs(2),
    }
}

fn pod(uid: &str, node: Option<&str>, record: Option<&str>) -> PodFacts {
    let value: Value = json!({
        "metadata": {"name": "p", "namespace": "team", "uid": uid, "resourceVersion": "7",
            "annotations": {names::ALLOCATION: record}},
        "spec": {"nodeName": node, "containers": []},
    });
    let mut value = value;
    if record.is_none() {
        value["metadata"]["annotations"] = Value::Null;
    }
    let pod: slim::Pod = serde_json::from_value(value).unwrap();
    PodFacts::new(&pod, &gpu::dialects(AliyunUnit::GiB))
}

fn answered(code: u16) -> Answer {
    let status = Status {
        code,
        message: "because".to_owned(),
        ..Status::default()
    };
    Answer::of(kube::Error::Api(Box::new(status)))
}

#[test]
fn only_answers_that_rule_out_any_effect_are_refusals() {
    for code in [400, 401, 403, 413, 422] {
        assert!(matches!(answered(code), Answer::Refused(_)), "{code}");
    }
    for code in [404, 409] {
        assert!(matches!(answered(code), Answer::Conflict(_)), "{code}");
    }
    for code in [408, 429, 500, 502, 503, 504] {
        assert!(matches!(answered(code), Answer::Lost(_)), "{code}");
    }
}

#[test]
fn a_pod_bound_with_our_record_is_bound_whatever_the_answer_was() {
    let bound = pod("u-1", Some("n1"), Some(RECORD));
    for code in [409, 500, 504] {
        assert_eq!(
            our_bind().judge(answered(code), Some(&bound)),
            Outcome::Bound
        );
    }
}

#[test]
fn a_pod_bound_otherwise_or_gone_is_beyond_our_reach() {
    let others = [
        Some(pod("u-1", Some("n2"), Some(RECORD))),
        Some(pod("u-1", Some("n1"), Some("another record"))),
        Some(pod("u-1", Some("n1"), None)),
        Some(pod("u-2", None, None)),
        None,
    ];
    for other in others {
        let outcome = our_bind().judge(answered(500), other.as_ref());
        assert!(
            matches!(outcome, Outcome::Overtaken(_)),
            "{other:?}: {outcome:?}"
        );
    }
}

#[test]
fn an_unbound_pod_is_beyond_the_reach_of_a_bind_that_was_fenced() {
    let unbound = pod("u-1", None, None);
    for code in [409, 504] {
        let outcome = our_bind().judge(answered(code), Some(&unbound));
        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }
}

/// Kubernetes answers 409 also when its database did not answer in time.
#[test]
fn a_conflict_that_nothing_in_the_pod_explains_leaves_the_outcome_open() {
    let unbound = pod("u-1", None, None);
    assert!(our_bind().can_take_effect(&unbound));
    let explains: [fn(&mut PodFacts); 5] = [
        |pod| pod.version = "8".to_owned(),
        |pod| pod.uid = "u-2".into(),
        |pod| pod.node = Some("n2".into()),
        |pod| pod.deleting = true,
        |pod| pod.gated = true,
    ];
    for explain in explains {
        let mut pod = unbound.clone();
        explain(&mut pod);
        assert!(!our_bind().can_take_effect(&pod), "{pod:?}");
    }
}

#[test]
fn a_bind_is_decided_again_if_only_the_version_was_in_the_way() {
    let mut changed = pod("u-1", None, None);
    changed.version = "8".to_owned();
    let outcome = our_bind().judge(answered(409), Some(&changed));
    assert!(matches!(outcome, Outcome::Stale(_)), "{outcome:?}");
    let outcome = our_bind().judge(answered(504), Some(&changed));
    assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    changed.deleting = true;
    let outcome = our_bind().judge(answered(409), Some(&changed));
    assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
}
