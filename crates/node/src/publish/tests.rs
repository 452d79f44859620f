use super::*;
use crate::testing::{card, offer};

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

fn known(cards: &[Card]) -> Cards {
    Cards::Known(cards.into())
}

fn check(node: &Node, cards: &Cards) -> Changes {
    changes(node, cards, &offer(false))
}

/// The Node after the changes were written.
fn written(changes: &Changes) -> Node {
    let mut node = changes.annotation.clone().unwrap();
    node["status"] = changes.status.clone().unwrap()["status"].clone();
    self::node(node)
}

#[test]
fn a_new_node_gets_inventory_and_totals_and_then_nothing_more() {
    let cards = known(&[card(0, 8000), card(1, 8000)]);
    let changes = check(&node(json!({})), &cards);
    let totals = json!({
        "gpushare.io/gpu-mem": "16000", "gpushare.io/gpu-core": "200",
        "aliyun.com/gpu-count": "2", "tencent.com/vcuda-memory": "62",
    });
    let status = json!({"status": {"capacity": totals, "allocatable": totals}});
    assert_eq!(changes.status, Some(status));
    assert_eq!(check(&written(&changes), &cards), Changes::default());
}

#[test]
fn a_quantity_in_another_spelling_is_no_change() {
    let cards = known(&[card(0, 8000), card(1, 8000)]);
    let mut node = written(&check(&node(json!({})), &cards));
    let status = node.status.as_mut().unwrap();
    for list in [&mut status.capacity, &mut status.allocatable] {
        let memory = list.as_mut().unwrap().get_mut(names::GPU_MEM).unwrap();
        memory.0 = "16k".to_owned();
    }
    assert_eq!(check(&node, &cards), Changes::default());
}

#[test]
fn what_somebody_changed_or_the_kubelet_dropped_is_put_right() {
    let cards = known(&[card(0, 8000)]);
    let good = written(&check(&node(json!({})), &cards));

    let mut edited = good.clone();
    edited.metadata.annotations = None;
    let changes = check(&edited, &cards);
    assert!(changes.annotation.is_some() && changes.status.is_none());

    let mut dropped = good;
    dropped.status.as_mut().unwrap().allocatable = None;
    let changes = check(&dropped, &cards);
    assert!(changes.annotation.is_none() && changes.status.is_some());
}

#[test]
fn a_sick_card_changes_the_inventory_and_not_the_totals() {
    let cards = known(&[card(0, 8000)]);
    let good = written(&check(&node(json!({})), &cards));
    let changes = check(&good, &cards.all_sick());
    let annotation = changes.annotation.unwrap().to_string();
    assert!(annotation.contains(r#"\"healthy\":false"#), "{annotation}");
    assert_eq!(changes.status, None);
}

#[test]
fn cards_published_before_and_unreadable_now_take_no_new_pods() {
    let good = written(&check(&node(json!({})), &known(&[card(0, 8000)])));
    let changes = check(&good, &Cards::Unreadable);
    let annotation = changes.annotation.unwrap().to_string();
    assert!(annotation.contains(r#"\"healthy\":false"#), "{annotation}");
    assert_eq!(changes.status, None);
    assert_eq!(
        check(&node(json!({})), &Cards::Unreadable),
        Changes::default()
    );
}

#[test]
fn nothing_is_written_before_the_cards_are_known() {
    assert_eq!(check(&node(json!({})), &Cards::Unknown), Changes::default());
}

#[test]
fn what_was_written_and_is_not_offered_any_more_goes_and_what_others_wrote_stays() {
    let cards = known(&[card(0, 8000)]);
    let mut node = written(&changes(&node(json!({})), &cards, &offer(true)));
    let ours = json!({"manager": totals::MANAGER, "fieldsV1": {"f:status": {
        "f:capacity": {"f:gpushare.io/gpu-mem": {}, "f:nvidia.com/gpumem": {}},
        "f:allocatable": {"f:nvidia.com/gpucores": {}},
    }}});
    let others = json!({"manager": "kubelet", "fieldsV1": {"f:status": {
        "f:capacity": {"f:cpu": {}, "f:nvidia.com/gpumem-percentage": {}},
    }}});
    node.metadata.managed_fields = serde_json::from_value(json!([ours, others])).unwrap();
    assert_eq!(changes(&node, &cards, &offer(true)), Changes::default());

    let status = check(&node, &cards).status.unwrap();
    for list in ["capacity", "allocatable"] {
        let gone: Vec<&String> = status["status"][list]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, amount)| amount.is_null())
            .map(|(name, _)| name)
            .collect();
        assert_eq!(gone, ["nvidia.com/gpucores", "nvidia.com/gpumem"]);
    }
}

#[test]
fn a_token_that_has_ended_is_told_from_other_refusals_with_what_to_do() {
    let refused = |code| Status::failure("no", "reason").with_code(code).boxed();
    let hint = "bound to its pod, as a DaemonSet does";
    assert!(refusal(&kube::Error::Api(refused(401))).contains(hint));
    assert!(!refusal(&kube::Error::Api(refused(403))).contains(hint));

    let known = |error: &watcher::Error| answered(error).and_then(unknown_token).is_none();
    for failed in [
        watcher::Error::InitialListFailed,
        watcher::Error::WatchStartFailed,
        watcher::Error::WatchFailed,
    ] {
        assert!(!known(&failed(kube::Error::Api(refused(401)))));
        assert!(known(&failed(kube::Error::Api(refused(403)))));
    }
    assert!(!known(&watcher::Error::WatchError(refused(401))));
    assert!(known(&watcher::Error::NoResourceVersion));
}
