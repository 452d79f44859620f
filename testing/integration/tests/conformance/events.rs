//! Events, in both of their API versions.

use anyhow::{Context, Result};
use integration::{Scope, in_namespace, refused};
use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

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

#[tokio::test]
async fn events_are_found_by_the_object_they_are_about() -> Result<()> {
    in_namespace(async |test| {
        let events = test.objects::<CoreEvent>();
        for (name, about) in [("one", "a"), ("two", "b")] {
            let event = serde_json::from_value(core_event(test, name, about))?;
            events.create(&PostParams::default(), &event).await?;
        }
        let about_b = ListParams::default().fields("involvedObject.kind=Pod,involvedObject.name=b");
        let found = events.list(&about_b).await?;
        assert_eq!(
            found
                .items
                .iter()
                .map(ResourceExt::name_any)
                .collect::<Vec<_>>(),
            ["two"]
        );
        let none = events
            .list(&ListParams::default().fields("reason=Other"))
            .await?;
        assert!(none.items.is_empty());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_event_written_in_one_version_reads_well_in_the_other() -> Result<()> {
    in_namespace(async |test| {
        let event = serde_json::from_value(new_event(test, "new"))?;
        test.objects::<Event>()
            .create(&PostParams::default(), &event)
            .await?;
        let old = test.objects::<CoreEvent>().get("new").await?;
        assert_eq!(old.message.as_deref(), Some("no card has room"));
        assert_eq!(old.involved_object.name.as_deref(), Some("p"));
        assert_eq!(
            old.reporting_component.as_deref(),
            Some("gpushare.io/extender")
        );
        let event = serde_json::from_value(core_event(test, "old", "q"))?;
        test.objects::<CoreEvent>()
            .create(&PostParams::default(), &event)
            .await?;
        let new = test.objects::<Event>().get("old").await?;
        assert_eq!(new.note.as_deref(), Some("no card has room"));
        assert_eq!(
            new.regarding.context("about nothing")?.name.as_deref(),
            Some("q")
        );
        assert_eq!(new.deprecated_count, Some(1));
        let by_field = ListParams::default().fields("regarding.name=q");
        let found = test.objects::<Event>().list(&by_field).await?;
        assert_eq!(
            found
                .items
                .iter()
                .map(ResourceExt::name_any)
                .collect::<Vec<_>>(),
            ["old"]
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_repeated_event_is_counted_by_patching_it() -> Result<()> {
    in_namespace(async |test| {
        let events = test.objects::<CoreEvent>();
        let event = serde_json::from_value(core_event(test, "a", "p"))?;
        events.create(&PostParams::default(), &event).await?;
        let again = Patch::Merge(json!({"count": 2, "message": "still no card has room"}));
        let patched = events.patch("a", &PatchParams::default(), &again).await?;
        assert_eq!(patched.count, Some(2));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_event_must_be_complete_and_beside_its_object() -> Result<()> {
    in_namespace(async |test| {
        let mut misplaced = core_event(test, "a", "p");
        misplaced["involvedObject"]["namespace"] = json!("elsewhere");
        let event = serde_json::from_value(misplaced)?;
        let events = test.objects::<CoreEvent>();
        let refusal = refused(events.create(&PostParams::default(), &event).await)?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
        let cause = &refusal.details.context("no details")?.causes[0];
        assert_eq!(cause.field, "involvedObject.namespace");
        for missing in ["eventTime", "type", "reportingController", "action"] {
            let mut incomplete = new_event(test, "b");
            if let Some(event) = incomplete.as_object_mut() {
                event.remove(missing);
            }
            let path = test.path("/apis/events.k8s.io/v1", "events");
            let answer = test.raw().post(&path, incomplete.to_string()).await?;
            assert_eq!(answer.verdict(), (422, "Invalid"), "{missing}");
        }
        Ok(())
    })
    .await
}
