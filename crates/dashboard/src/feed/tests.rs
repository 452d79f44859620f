use serde_json::Value;

use super::*;
use crate::model::tests::{add_node, empty, place};

fn json(frame: &Frame) -> Value {
    serde_json::from_str(&frame.text).unwrap()
}

fn feed() -> (Feed, RwLock<Model>) {
    let mut model = empty();
    add_node(&mut model, "a", &[10_000]);
    let (feed, model) = (Feed::new("e".to_owned()), RwLock::new(model));
    feed.update(&model, 0, false);
    (feed, model)
}

#[test]
fn what_does_not_change_is_not_told() {
    let (feed, model) = feed();
    let before = feed.snapshot().id;
    feed.update(&model, 1, false);
    add_node(&mut model.write(), "a", &[10_000]);
    feed.update(&model, 2, false);
    assert_eq!(feed.snapshot().id, before);
}

#[test]
fn frames_that_were_missed_can_be_had_again_until_there_are_too_many() {
    let (feed, model) = feed();
    let first = feed.snapshot().id.to_string();
    place(&mut model.write(), "p", "a", 1000);
    feed.update(&model, 1, false);
    let (beginning, _) = feed.subscribe(Some(&first));
    let Beginning::Frames(frames) = beginning else {
        panic!("{beginning:?}");
    };
    assert_eq!(frames.len(), 1);
    assert_eq!(json(&frames[0])["overview"]["pods"], 1);
    for time in 0..=i64::try_from(MOST_FRAMES).unwrap() {
        feed.update(&model, time, true);
    }
    let (beginning, _) = feed.subscribe(Some(&first));
    assert!(matches!(beginning, Beginning::Snapshot(_)));
}

#[test]
fn a_number_that_was_never_told_begins_anew() {
    let (feed, _model) = feed();
    for id in ["e.99", "f.0", "e", "e.-1", "e.x"] {
        let (beginning, _) = feed.subscribe(Some(id));
        assert!(matches!(beginning, Beginning::Snapshot(_)), "{id}");
    }
}

#[test]
fn a_change_below_the_row_is_told_by_the_nodes_name() {
    let (feed, model) = feed();
    place(&mut model.write(), "p", "a", 1000);
    feed.update(&model, 1, false);
    let first = feed.snapshot().id.to_string();
    {
        let mut model = model.write();
        model.remove_pod(&"uid-p".into());
        place(&mut model, "q", "a", 1000);
    }
    feed.update(&model, 2, false);
    let (beginning, _) = feed.subscribe(Some(&first));
    let Beginning::Frames(frames) = beginning else {
        panic!("{beginning:?}");
    };
    let delta = json(&frames[0]);
    assert_eq!(delta["touched"], serde_json::json!(["a"]));
    assert!(delta["nodes"].is_null());
}
