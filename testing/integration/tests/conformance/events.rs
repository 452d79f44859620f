//! Events, in both of their API versions.

use anyhow::{Context, Result};
use integration::verdict::INVALID;
use integration::{Objects, Scope, in_namespace, refused};
use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use serde_json::{Value, json};

fn core_events(test: &Scope) -> Objects<CoreEvent> {
    test.objects()
}

fn core_event(test: &Scope, name: &str, about: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": about,
            "namespace": test.namespace(),
        },
        "reason": "CardsFull",
        "message": "no card has room",
        "type": "Warning",
        "count": 1,
    })
}

fn new_event(test: &Scope, name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": test.namespace()},
        "reason": "CardsFull",
        "note": "no card has room",
        "action": "Schedule",
        "type": "Warning",
        "eventTime": "2026-01-02T03:04:05.678901Z",
        "reportingController": "gpushare.io/extender",
        "reportingInstance": "extender-1",
    })
}

#[test]
fn events_are_found_by_the_object_they_are_about() -> Result<()> {
    in_namespace(async |test| {
        let events = core_events(test);
        for (name, about) in [("one", "a"), ("two", "b")] {
            let event = core_event(test, name, about);
            events.create_json(event).await?;
        }
        let about_b = ListParams::default().fields("involvedObject.kind=Pod,involvedObject.name=b");
        assert_eq!(events.names(&about_b).await?, ["two"]);
        let others = ListParams::default().fields("reason=Other");
        assert!(events.names(&others).await?.is_empty());
        Ok(())
    })
}

#[test]
fn an_event_written_in_one_version_reads_well_in_the_other() -> Result<()> {
    in_namespace(async |test| {
        let (core_events, events) = (core_events(test), test.objects::<Event>());
        events.create_json(new_event(test, "new")).await?;
        let old = core_events.get("new").await?;
        assert_eq!(old.message.as_deref(), Some("no card has room"));
        assert_eq!(old.involved_object.name.as_deref(), Some("p"));
        let component = old.reporting_component.as_deref();
        assert_eq!(component, Some("gpushare.io/extender"));
        let event = core_event(test, "old", "q");
        core_events.create_json(event).await?;
        let new = events.get("old").await?;
        assert_eq!(new.note.as_deref(), Some("no card has room"));
        let regarding = new.regarding.context("about nothing")?;
        assert_eq!(regarding.name.as_deref(), Some("q"));
        assert_eq!(new.deprecated_count, Some(1));
        let by_field = ListParams::default().fields("regarding.name=q");
        assert_eq!(events.names(&by_field).await?, ["old"]);
        Ok(())
    })
}

#[test]
fn a_repeated_event_is_counted_by_patching_it() -> Result<()> {
    in_namespace(async |test| {
        let events = core_events(test);
        events.create_json(core_event(test, "a", "p")).await?;
        let again = json!({"count": 2, "message": "still no card has room"});
        assert_eq!(events.merge("a", again).await?.count, Some(2));
        Ok(())
    })
}

#[test]
fn an_event_must_be_complete_and_beside_its_object() -> Result<()> {
    in_namespace(async |test| {
        let mut misplaced = core_event(test, "a", "p");
        misplaced["involvedObject"]["namespace"] = json!("elsewhere");
        let misplaced: CoreEvent = serde_json::from_value(misplaced)?;
        let refusal = refused(core_events(test).create(misplaced).await, INVALID)?;
        assert_eq!(refusal.detail("causes/0/field"), "involvedObject.namespace");
        let path = test.path("/apis/events.k8s.io/v1", "events");
        for missing in ["eventTime", "type", "reportingController", "action"] {
            let mut event = new_event(test, "b");
            event
                .as_object_mut()
                .context("not an object")?
                .remove(missing);
            let answer = test.raw().post(&path, event.to_string()).await?;
            answer.must_be(INVALID);
        }
        Ok(())
    })
}
