use super::*;
use crate::model::tests::{add_node, empty, place, set, wait};

#[test]
fn a_pod_waits_for_the_reason_that_the_core_gives() {
    let mut model = empty();
    add_node(&mut model, "a", &[10_000]);
    place(&mut model, "p", "a", 6000);
    wait(&mut model, "q", 6000);
    let rows = rows(&model);
    let row = rows.get("ns/q").unwrap();
    assert_eq!(row.state, State::Waiting);
    let (uid, pod) = model.pod_named("ns", "q").unwrap();
    let AllocationState::Waiting { ask, .. } = &pod.allocation else {
        panic!("{pod:?}");
    };
    assert_eq!(
        row.reason.as_deref(),
        Some(explain(&model, uid, ask).to_string().as_str())
    );
    assert!(!row.help.is_empty());
    assert!(!rows.contains_key("ns/p"));
}

#[test]
fn a_pod_that_fits_says_so_and_needs_no_help() {
    let mut model = empty();
    add_node(&mut model, "a", &[10_000]);
    wait(&mut model, "q", 6000);
    let rows = rows(&model);
    let row = rows.get("ns/q").unwrap();
    assert_eq!(row.state, State::Fits);
    assert!(row.help.is_empty());
}

#[test]
fn a_pod_whose_request_is_wrong_shows_what_is_wrong() {
    let mut model = empty();
    let limits = serde_json::json!({"gpushare.io/gpu-mem": "1024"});
    let pod = serde_json::json!({
        "metadata": {"name": "q", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    });
    set(&mut model, &pod);
    let rows = rows(&model);
    let row = rows.get("ns/q").unwrap();
    assert_eq!(row.state, State::Invalid);
    assert!(row.reason.as_ref().unwrap().contains("gpushare.io/gpu"));
}
