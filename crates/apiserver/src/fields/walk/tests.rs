use serde_json::json;

use super::*;

#[test]
fn an_object_owns_its_leaves_and_list_items_but_not_its_identity() {
    let pod = json!({
        "apiVersion": "v1",
        "metadata": {"name": "p", "uid": "u", "labels": {"a": "1"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"key": "x"}]},
    });
    assert_eq!(
        fields_of(&pod).paths(),
        [
            ".metadata.labels.a",
            ".spec.containers[name=\"c\"]",
            ".spec.containers[name=\"c\"].image",
            ".spec.containers[name=\"c\"].name",
            ".spec.tolerations",
        ]
    );
}

#[test]
fn two_states_differ_in_changed_and_removed_fields() {
    let old = json!({"metadata": {"labels": {"a": "1", "b": "1"}}, "status": {"conditions": [
        {"type": "X", "status": "True"}, {"type": "Y", "status": "True"},
    ]}});
    let new = json!({"metadata": {"labels": {"a": "2"}}, "status": {"conditions": [
        {"type": "X", "status": "False"}, {"type": "Z", "status": "True"},
    ]}});
    let (changed, removed) = difference(&old, &new);
    assert_eq!(
        changed.paths(),
        [
            ".metadata.labels.a",
            ".status.conditions[type=\"X\"].status",
            ".status.conditions[type=\"Z\"]",
            ".status.conditions[type=\"Z\"].status",
            ".status.conditions[type=\"Z\"].type",
        ]
    );
    assert_eq!(
        removed.paths(),
        [
            ".metadata.labels.b",
            ".status.conditions[type=\"Y\"]",
            ".status.conditions[type=\"Y\"].status",
            ".status.conditions[type=\"Y\"].type",
        ]
    );
}

#[test]
fn applying_merges_keyed_items_and_pruning_keeps_what_others_own() {
    let mut live = json!({"metadata": {"labels": {"mine": "1", "theirs": "1"}}, "status": {
        "conditions": [{"type": "X", "status": "True", "reason": "theirs"}],
    }});
    let config = json!({"status": {"conditions": [
        {"type": "W", "status": "True"}, {"type": "X", "status": "False"},
    ]}});
    apply_onto(&mut live, &config);
    let mine = json!({"metadata": {"labels": {"mine": "1"}}});
    let theirs = json!({"metadata": {"labels": {"theirs": "1"}}});
    prune(&mut live, &fields_of(&mine), &fields_of(&theirs));
    assert_eq!(
        live,
        json!({"metadata": {"labels": {"theirs": "1"}}, "status": {"conditions": [
            {"type": "X", "status": "False", "reason": "theirs"},
            {"type": "W", "status": "True"},
        ]}})
    );
}
