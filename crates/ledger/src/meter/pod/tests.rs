use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::record::Record;
use gpushare_core::{Amounts, CardId, NodeName, Placement};
use serde_json::{Value, json};

use super::*;

/// Times on the pod, in seconds of a minute.
fn at(second: u32) -> String {
    format!("2026-11-16T10:00:{second:02}Z")
}

fn second(seconds: Seconds) -> Seconds {
    let base: jiff::Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
    seconds - base.as_second()
}

fn read(status: &Value) -> Pod {
    let mut status = status.clone();
    status["conditions"] = json!([
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(5)},
        {"type": "Ready", "status": "False", "lastTransitionTime": at(40)},
    ]);
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "a", "uid": "u", "creationTimestamp": at(1)},
        "status": status,
    }))
    .unwrap()
}

fn running() -> Value {
    json!({"state": {"running": {"startedAt": at(10)}}, "lastState": {}})
}

fn finished_at(second: u32) -> Value {
    json!({"state": {"terminated": {"exitCode": 0, "startedAt": at(10), "finishedAt": at(second)}}})
}

fn ends(status: &Value) -> Option<Seconds> {
    end(&times(&read(status))).map(second)
}

/// When a pod of this phase and with this container ends.
fn ends_with(phase: &str, container: &Value) -> Option<Seconds> {
    ends(&json!({"phase": phase, "containerStatuses": [container]}))
}

#[test]
fn a_pod_holds_from_its_bind_until_all_its_containers_have_finished() {
    let alive = json!({"phase": "Running", "containerStatuses": [finished_at(20), running()]});
    assert_eq!(second(times(&read(&alive)).bound), 5);
    assert_eq!(ends(&alive), None);
    let ended = json!({"phase": "Succeeded",
        "initContainerStatuses": [finished_at(35)], "containerStatuses": [finished_at(20), finished_at(30)]});
    assert_eq!(ends(&ended), Some(35));
}

#[test]
fn a_crash_loop_holds_on_and_ends_with_its_last_crash() {
    let crashed = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": at(22)}}, "restartCount": 7});
    assert_eq!(ends_with("Running", &crashed), None);
    assert_eq!(ends_with("Failed", &crashed), Some(22));
}

#[test]
fn a_pod_whose_kubelet_told_no_finish_ends_with_the_last_word_about_it() {
    let unknown = json!({"state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
        "startedAt": null, "finishedAt": null}}});
    assert_eq!(ends_with("Failed", &unknown), Some(40));
    assert_eq!(ends_with("Failed", &running()), Some(40));
    let nothing = json!({"phase": "Failed", "containerStatuses": null});
    assert_eq!(ends(&nothing), Some(40));
}

/// The status is as a kubelet of 1.36 writes it.
#[test]
fn a_rejected_pod_held_its_card_until_its_status_was_written() {
    let write = |subresource: &str, second| {
        json!({"manager": "m", "operation": "Update", "subresource": subresource,
        "time": at(second), "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:phase": {}}}})
    };
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "a", "uid": "u", "creationTimestamp": at(1),
            "managedFields": [write("", 50), write("status", 7), write("status", 35)]},
        "status": {"phase": "Failed", "startTime": at(6), "reason": "UnexpectedAdmissionError"},
    }))
    .unwrap();
    let rejected = times(&pod);
    assert_eq!(second(rejected.bound), 6);
    let (base, now) = (rejected.bound - 6, rejected.bound + 1_000);
    assert_eq!(rejected.written, Some(base + 35));
    let end = |charged| end(&rejected.clone().with_rejection(charged, now)).map(second);
    assert_eq!(end(None), Some(35));
    assert_eq!(end(Some(base + 30)), Some(35));
    assert_eq!(end(Some(base + 45)), Some(45));
}

/// After it has rejected a pod, a kubelet of 1.36 may write the whole status again.
#[test]
fn a_rejected_pod_was_bound_before_its_kubelet_says() {
    let redated =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at(35)});
    let mut pod = read(
        &json!({"phase": "Failed", "startTime": at(6), "containerStatuses": [finished_at(20)]}),
    );
    pod.status.conditions = ["PodScheduled", "Initialized"]
        .map(|kind| serde_json::from_value(redated(kind)).unwrap())
        .to_vec();
    let told = times(&pod);
    assert_eq!(second(told.bound), 6);
    assert_eq!(end(&told).map(second), Some(20));
}

#[test]
fn a_pod_that_was_bound_and_failed_before_any_container_started_is_not_taken_for_rejected() {
    let evicted = times(&read(&json!({"phase": "Failed", "reason": "Evicted"})));
    let later = evicted.clone().with_rejection(Some(Seconds::MAX), 0);
    assert_eq!(later, evicted);
}

#[test]
fn a_pod_that_only_the_finalizer_keeps_has_ended_unless_its_node_can_tell_of_it() {
    let mut pod = read(&json!({"phase": "Running", "containerStatuses": [running()]}));
    pod.metadata.finalizers = Some(vec!["gpushare.io/metering".to_owned()]);
    assert!(pod.awaits_metering());
    pod.metadata.deletion_timestamp = Some(Time(at(50).parse().unwrap()));
    pod.metadata.deletion_grace_period_seconds = Some(30);
    assert_eq!(end(&times(&pod)), None);
    pod.metadata.deletion_grace_period_seconds = Some(0);
    assert_eq!(end(&times(&pod)).map(second), Some(50));
    // A deletion without grace proves nothing, because the container may still run.
    assert_eq!(end(&times(&pod).of_living_node()), None);
    pod.status = read(&json!({"phase": "Failed", "containerStatuses": [finished_at(55)]})).status;
    assert_eq!(end(&times(&pod).of_living_node()).map(second), Some(55));
}

const CARD: &str = "GPU-1";

fn card(model: &str) -> Card {
    Card {
        id: CardId::new(CARD),
        class: gpu::CLASS.into(),
        index: 0,
        model: model.into(),
        capacity: Amounts::of(gpu::MEMORY, 16_384).with(gpu::CORE, 100),
        healthy: true,
    }
}

/// A pod with an init container of 8 GiB and a container of 4 GiB on one card, bound and running.
fn bound(dialects: &Dialects, record_uid: &str) -> Pod {
    let container = |name: &str, mib: u32| json!({"name": name, "resources": {"limits": {"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": mib.to_string()}}});
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "a", "uid": "u", "annotations": {}},
        "spec": {"nodeName": "n", "initContainers": [container("i", 8_192)], "containers": [container("c", 4_096)]},
        "status": {"phase": "Running", "startTime": at(7), "containerStatuses": [running()]},
    });
    let asking: Pod = serde_json::from_value(pod.clone()).unwrap();
    let ask = asking.facts(dialects).ask.unwrap().unwrap();
    let placement = Placement::on_one_card(&ask, &CardId::new(CARD));
    let (uid, node) = (PodUid::new(record_uid), NodeName::new("n"));
    let record = Record::new(uid, node, &gpu::classes(), &placement);
    pod["metadata"]["annotations"]["gpushare.io/allocation"] = json!(record.encode());
    serde_json::from_value(pod).unwrap()
}

fn book(pod: &Pod, cards: &[Card]) -> Result<Option<Booking>, MeterError> {
    let dialects = gpu::dialects(AliyunUnit::GiB);
    let prices = Prices::new([("T4", crate::money::Rate::parse_price("3").unwrap())]);
    let terms = Terms {
        prices: &prices,
        formula: Formula::Max,
    };
    let facts = pod.facts(&dialects);
    booking(&facts, &times(pod), &gpu::classes(), cards, terms)
}

#[test]
fn a_pod_pays_for_its_peak_on_each_card_at_the_price_of_the_model() {
    let pod = bound(&gpu::dialects(AliyunUnit::GiB), "u");
    let booking = book(&pod, &[card("T4")]).unwrap().unwrap();
    assert_eq!(booking.rate.micros(), 1_500_000);
    assert_eq!(second(booking.begin), 7);
    assert_eq!(booking.end, None);
    assert_eq!([&booking.namespace, &booking.name], ["a", "p"]);
    let cheap = book(&pod, &[card("A10")]).unwrap().unwrap();
    assert_eq!(cheap.rate.micros(), 500_000);
}

#[test]
fn what_cannot_be_believed_or_priced_is_said_and_not_guessed() {
    let dialects = gpu::dialects(AliyunUnit::GiB);
    let forged = book(&bound(&dialects, "another"), &[card("T4")]).unwrap_err();
    assert!(matches!(forged, MeterError::Record { .. }), "{forged}");
    let gone = book(&bound(&dialects, "u"), &[]).unwrap_err();
    assert!(matches!(gone, MeterError::UnknownCard { .. }), "{gone}");
}

#[test]
fn a_pod_without_a_booking_pays_nothing() {
    let mut pod = bound(&gpu::dialects(AliyunUnit::GiB), "u");
    pod.metadata.annotations = None;
    assert_eq!(book(&pod, &[card("T4")]), Ok(None));
}
