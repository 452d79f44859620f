use serde_json::{Value, json};

use super::*;
use crate::resource::BUILT_IN;

fn cells(kind: &str, object: &Value) -> Vec<(String, String)> {
    let resource = BUILT_IN.iter().find(|r| r.kind == kind).unwrap();
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let objects = [object].into_iter();
    let table = table(resource, objects, &json!({}), Include::Metadata, now);
    let names = table.list("columnDefinitions").iter();
    let cells = table.list("rows")[0].list("cells").iter();
    names
        .zip(cells)
        .map(|(name, cell)| {
            let cell = cell
                .as_str()
                .map_or_else(|| cell.to_string(), str::to_owned);
            (name.text("name").to_owned(), cell)
        })
        .collect()
}

fn cell(kind: &str, name: &str, object: &Value) -> String {
    let cells = cells(kind, object);
    let found = cells.iter().find(|(column, _)| column == name);
    found.unwrap_or_else(|| panic!("{cells:?}")).1.clone()
}

fn pod(status: &Value) -> Value {
    json!({
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}, {"name": "d"}]},
        "status": status,
    })
}

#[test]
fn a_pod_shows_what_stands_in_its_way_before_its_phase() {
    let status = |status: Value| cell("Pod", "Status", &pod(&status));
    assert_eq!(status(json!({"phase": "Pending"})), "Pending");
    let refused = json!({"phase": "Pending", "containerStatuses": [
        {"state": {"waiting": {"reason": "CreateContainerConfigError"}}}]});
    assert_eq!(status(refused), "CreateContainerConfigError");
    let ended = json!({"phase": "Succeeded", "containerStatuses": [
        {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}]});
    assert_eq!(status(ended), "Completed");
    let gated = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]});
    assert_eq!(status(gated), "SchedulingGated");
    let mut dying = pod(&json!({"phase": "Running"}));
    dying.put("metadata.deletionTimestamp", "2026-01-01T00:00:00Z");
    assert_eq!(cell("Pod", "Status", &dying), "Terminating");
}

#[test]
fn a_pod_counts_its_ready_containers_and_is_as_old_as_its_creation() {
    let running = pod(&json!({"phase": "Running", "containerStatuses": [
        {"ready": true, "restartCount": 2, "state": {"running": {}}}]}));
    assert_eq!(cell("Pod", "Ready", &running), "1/2");
    assert_eq!(cell("Pod", "Restarts", &running), "2");
    assert_eq!(cell("Pod", "Age", &running), "5m");
    assert_eq!(cell("Pod", "Node", &running), "n");
    assert_eq!(cell("Pod", "Nominated Node", &running), "<none>");
}

#[test]
fn a_node_is_ready_or_closed() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let mut node = json!({"metadata": {"name": "n"}, "status": {"conditions": ready}});
    assert_eq!(cell("Node", "Status", &node), "Ready");
    node.put("spec.unschedulable", true);
    assert_eq!(cell("Node", "Status", &node), "Ready,SchedulingDisabled");
    node.remove("status");
    assert_eq!(cell("Node", "Status", &node), "NotReady,SchedulingDisabled");
}

#[test]
fn every_kind_has_a_table_with_a_cell_for_each_column() {
    for resource in BUILT_IN {
        let object = json!({"metadata": {"name": "x"}});
        let cells = cells(resource.kind, &object);
        assert!(cells.iter().any(|(name, _)| name == "Name"), "{resource:?}");
    }
}

#[test]
fn columns_of_other_kinds_come_from_their_row_of_the_table_of_resources() {
    let mut resource = BUILT_IN[0].clone();
    resource.group = "example.com";
    resource.kind = "Widget";
    resource.columns = &[Column {
        name: "Ready",
        cell: Cell::Condition("Ready"),
        wide: false,
    }];
    let widget = json!({"metadata": {"name": "w"}, "status": {"conditions": [
        {"type": "Ready", "status": "True"}]}});
    let (objects, now) = ([&widget].into_iter(), Timestamp::UNIX_EPOCH);
    let table = table(&resource, objects, &json!({}), Include::Nothing, now);
    let row = json!({"cells": ["w", "True", "<unknown>"]});
    assert_eq!(table.list("rows"), [row]);
}
