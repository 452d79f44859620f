use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::{Amounts, CardId, Placement, Record, names};
use gpushare_kube::metering;
use gpushare_ledger::period::{Calendar, Schedule};
use serde_json::{Value, json};

use super::*;

const BOUND: Seconds = 1_000;

fn time(seconds: Seconds) -> String {
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

/// A pod with half of the card, bound at [`BOUND`].
fn pod(status: &Value) -> SeenPod {
    let mut object = json!({
        "metadata": {"name": "p", "namespace": "a", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [
            {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": "8"}}}]},
        "status": status,
    });
    object["status"]["conditions"] = json!([
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": time(BOUND)}]);
    let ask = seen(object.clone()).facts.ask.unwrap().unwrap();
    let placement = Placement::on_one_card(&ask, &CardId::new("card"));
    let record = Record::new("u".into(), "n".into(), &gpu::classes(), &placement);
    object["metadata"]["annotations"] = json!({names::ALLOCATION: record.encode()});
    seen(object)
}

fn seen(object: Value) -> SeenPod {
    let pod: metering::Pod = serde_json::from_value(object).unwrap();
    let facts = pod.facts(&gpu::dialects(AliyunUnit::GiB));
    SeenPod { pod, facts }
}

fn running() -> SeenPod {
    pod(&json!({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}))
}

fn ended(at: Seconds) -> SeenPod {
    let state = json!({"terminated": {"finishedAt": time(at)}});
    pod(&json!({"phase": "Succeeded", "containerStatuses": [{"state": state}]}))
}

fn card() -> Card {
    Card {
        id: CardId::new("card"),
        class: gpu::CLASS.into(),
        index: 0,
        model: "T4".into(),
        capacity: Amounts::of(gpu::MEMORY, 16 * 1024),
        healthy: true,
    }
}

fn link(budget: &str, created: Seconds) -> Link {
    Link {
        tier: Tier {
            budget: budget.to_owned(),
            schedule: Schedule::calendar(Calendar::Month, "UTC").unwrap(),
        },
        created,
    }
}

/// Nobody pays, the card is known, nothing is charged yet.
fn circumstances<'a>(classes: &'a Classes, cards: &'a [Card], now: Seconds) -> Circumstances<'a> {
    Circumstances {
        classes,
        cards,
        kubelet: Outlook::Reports,
        pays: Pays::Nobody,
        progress: None,
        vanished: None,
        now,
        grid: 300,
    }
}

fn open(through: Seconds) -> Progress {
    Progress {
        through,
        settled: false,
    }
}

fn settled(through: Seconds) -> Progress {
    Progress {
        through,
        settled: true,
    }
}

fn charged(due: Due) -> DueCharges {
    match due {
        Due::Charge(charged) => *charged,
        other => panic!("{other:?}"),
    }
}

fn intervals(plan: &Plan) -> Vec<(Seconds, Seconds, usize)> {
    let charges = plan.charges.iter();
    charges
        .map(|charge| (charge.from, charge.to, charge.legs.len()))
        .collect()
}

#[test]
fn a_running_pod_is_charged_in_cells_and_an_ended_one_to_the_second() {
    let (classes, cards) = (gpu::classes(), [card()]);
    let now = charged(due(&running(), circumstances(&classes, &cards, 1_700)));
    assert_eq!(intervals(&now.plan), [(1_000, 1_200, 0), (1_200, 1_500, 0)]);
    assert_eq!(now.plan.held.whole_seconds(), 100);
    assert_eq!(now.progress().unwrap().through, 1_500);
    assert_eq!(now.rate().micros(), 500_000);
    let end = charged(due(&ended(1_301), circumstances(&classes, &cards, 1_700)));
    assert_eq!(intervals(&end.plan), [(1_000, 1_200, 0), (1_200, 1_301, 0)]);
    assert_eq!(end.progress(), Some(settled(1_301)));
    assert_eq!(end.rate(), Rate::ZERO);
    assert_eq!(end.changes().len(), 3);
}

#[test]
fn a_settled_pod_is_looked_at_again_only_if_its_end_was_earlier() {
    let (classes, cards) = (gpu::classes(), [card()]);
    let settled = Circumstances {
        progress: Some(settled(1_301)),
        ..circumstances(&classes, &cards, 9_000)
    };
    assert!(matches!(due(&ended(1_301), settled), Due::Nothing));
    assert!(matches!(due(&ended(1_400), settled), Due::Nothing));
    let earlier = charged(due(&ended(1_250), settled));
    assert_eq!(earlier.plan.settle, Some(1_250));
    assert_eq!(earlier.changes().len(), 1);
}

#[test]
fn a_pod_whose_object_is_gone_ends_when_that_was_noticed() {
    let (classes, cards) = (gpu::classes(), [card()]);
    let gone = Circumstances {
        vanished: Some(1_250),
        ..circumstances(&classes, &cards, 9_000)
    };
    let end = charged(due(&running(), gone));
    assert_eq!(end.plan.settle, Some(1_250));
    // The end that the pod reported counts, however late its disappearance is noticed.
    assert_eq!(charged(due(&ended(1_100), gone)).plan.settle, Some(1_100));
    let of_unknown_namespace = Circumstances {
        pays: Pays::Unknown,
        ..gone
    };
    let due = due(&running(), of_unknown_namespace);
    assert!(matches!(due, Due::Charge(_)), "{due:?}");
}

#[test]
fn a_pod_waits_for_its_namespace_and_for_its_cards_and_ends_without_a_price_if_nobody_knows_them() {
    let (classes, cards) = (gpu::classes(), [card()]);
    let unknown = Circumstances {
        pays: Pays::Unknown,
        ..circumstances(&classes, &cards, 9_000)
    };
    assert!(matches!(due(&running(), unknown), Due::Later(None)));
    let without = circumstances(&classes, &[], 9_000);
    assert!(matches!(due(&running(), without), Due::Later(Some(_))));
    let end = charged(due(&ended(1_250), without));
    assert_eq!(end.booking.rate, Rate::ZERO);
    assert_eq!(end.booking.formula, UNKNOWN_CARDS);
    assert_eq!(end.plan.settle, Some(1_250));
}

#[test]
fn a_pod_that_was_never_bound_holds_nothing_and_goes_when_it_is_deleted() {
    let (classes, cards) = (gpu::classes(), [card()]);
    let mut object = json!({
        "metadata": {"name": "p", "namespace": "a", "uid": "u", "finalizers": [names::METERING]},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": "8"}}}]},
        "status": {"phase": "Pending"},
    });
    let now = circumstances(&classes, &cards, 9_000);
    assert!(matches!(due(&seen(object.clone()), now), Due::Later(None)));
    object["metadata"]["deletionTimestamp"] = json!(time(2_000));
    object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    assert!(matches!(due(&seen(object), now), Due::Nothing));
}

#[test]
fn a_record_that_cannot_be_believed_holds_nothing() {
    let (classes, cards) = (gpu::classes(), [card()]);
    let now = circumstances(&classes, &cards, 9_000);
    let forged = |mut pod: SeenPod| {
        let annotations = pod.pod.metadata.annotations.as_mut().unwrap();
        annotations.insert(names::ALLOCATION.to_owned(), "{}".to_owned());
        SeenPod {
            facts: pod.pod.facts(&gpu::dialects(AliyunUnit::GiB)),
            pod: pod.pod,
        }
    };
    assert!(matches!(
        due(&forged(running()), now),
        Due::Later(Some(MeterError::Record { .. }))
    ));
    assert!(matches!(due(&forged(ended(1_200)), now), Due::Nothing));
}

#[test]
fn a_budget_pays_from_its_creation_on() {
    let booking = Booking {
        pod: PodUid::new("u"),
        namespace: "a".to_owned(),
        name: "p".to_owned(),
        begin: BOUND,
        end: Some(2_000),
        rate: Rate::ONE,
        formula: "max/1".to_owned(),
        cards: Arc::default(),
    };
    let links = [link("leaf", 1_150), link("root", 1_300)];
    let (late, budgets) = plan(&booking, &links, None, 5_000, 300).unwrap();
    assert_eq!(
        intervals(&late),
        [
            (1_000, 1_150, 0),
            (1_150, 1_200, 1),
            (1_200, 1_300, 1),
            (1_300, 1_500, 2),
            (1_500, 1_800, 2),
            (1_800, 2_000, 2),
        ]
    );
    assert_eq!(late.settle, Some(2_000));
    assert_eq!(budgets, ["leaf", "root"]);
    // A chain pays nothing before its leaf exists, even if the budgets above it exist.
    let links = [link("leaf", 9_000), link("root", 0)];
    let (before, budgets) = plan(&booking, &links, None, 5_000, 300).unwrap();
    assert!(before.charges.iter().all(|charge| charge.legs.is_empty()));
    assert!(budgets.is_empty());
}

/// Deleted at 1,100 without grace, as a tenant can, while its container runs.
fn deleted_by_force() -> SeenPod {
    let mut pod = running().pod;
    pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!(time(1_100))).unwrap());
    pod.metadata.deletion_grace_period_seconds = Some(0);
    let facts = pod.facts(&gpu::dialects(AliyunUnit::GiB));
    SeenPod { pod, facts }
}

#[test]
fn a_forced_deletion_ends_nothing_while_the_node_lives() {
    let (classes, cards) = (gpu::classes(), [card()]);
    let now = circumstances(&classes, &cards, 1_700);
    let now = charged(due(&deleted_by_force(), now));
    assert_eq!(now.plan.settle, None);
    assert_eq!(intervals(&now.plan), [(1_000, 1_200, 0), (1_200, 1_500, 0)]);
}

#[test]
fn a_forced_deletion_ends_a_pod_whose_node_tells_nothing_any_more() {
    let (classes, cards) = (gpu::classes(), [card()]);
    let lost = |through, reported_until| Circumstances {
        kubelet: Outlook::Lost(reported_until),
        progress: Some(open(through)),
        ..circumstances(&classes, &cards, 1_700)
    };
    let end = |through, reported_until| {
        let due = due(&deleted_by_force(), lost(through, reported_until));
        charged(due).plan.settle
    };
    assert_eq!(end(1_000, None), Some(1_100));
    // What was charged while the node lived stays.
    assert_eq!(end(1_500, None), Some(1_500));
    // It held its card as long as the kubelet reported.
    assert_eq!(end(1_000, Some(1_350)), Some(1_350));
    assert_eq!(end(1_000, Some(1_050)), Some(1_100));
}

/// A pod that its kubelet started at [`BOUND`] and rejected after a restart. The status, written at 1,340, contains
/// nothing else.
fn rejected() -> SeenPod {
    let mut object =
        json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "startTime": time(BOUND)});
    object["containerStatuses"] = Value::Null;
    let mut pod = pod(&object).pod;
    pod.status.conditions.clear();
    let written = json!([{"manager": "kubelet", "operation": "Update", "subresource": "status", "time": time(1_340)}]);
    pod.metadata.managed_fields = Some(serde_json::from_value(written).unwrap());
    let facts = pod.facts(&gpu::dialects(AliyunUnit::GiB));
    SeenPod { pod, facts }
}

#[test]
fn a_rejected_pod_held_its_card_until_it_was_rejected_and_loses_no_charge() {
    let (classes, cards) = (gpu::classes(), [card()]);
    let charged_through = |through: Option<Seconds>, now| Circumstances {
        progress: through.map(open),
        ..circumstances(&classes, &cards, now)
    };
    let end =
        |pod: &SeenPod, through, now| charged(due(pod, charged_through(through, now))).plan.settle;
    assert_eq!(end(&rejected(), None, 1_700), Some(1_340));
    assert_eq!(end(&rejected(), Some(1_200), 1_700), Some(1_340));
    // A status without times reverses no charge.
    assert_eq!(end(&rejected(), Some(1_500), 1_700), Some(1_500));
    let mut stripped = rejected();
    stripped.pod.metadata.managed_fields = None;
    // A tenant can remove the time of the status. Then the time at which the rejection was noticed counts.
    assert_eq!(end(&stripped, Some(1_200), 1_700), Some(1_700));
    let settled = Circumstances {
        progress: Some(settled(1_700)),
        ..circumstances(&classes, &cards, 9_000)
    };
    assert!(matches!(due(&stripped, settled), Due::Nothing));
    // No end lies in the future.
    assert_eq!(end(&rejected(), Some(1_200), 1_300), Some(1_300));
}
