//! Binding: one write that gives a pod its node and our record, or a conflict that says why not.

use anyhow::{Context, Result};
use futures::future::try_join_all;
use integration::objects::{node_of, pod};
use integration::verdict::{BAD_REQUEST, CONFLICT, CREATED, NOT_FOUND, UNFORESEEN};
use integration::{Answer, Scope, in_namespace, version_of};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

const RECORD: &str = "gpushare.io/test-record";

fn binding(name: &str, node: &str) -> Value {
    binding_with(&json!({"name": name}), node)
}

fn binding_with(metadata: &Value, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}

async fn bind(test: &Scope, name: &str, node: &str) -> Result<Answer> {
    test.post_binding(name, &binding(name, node)).await
}

async fn bind_with_record(test: &Scope, name: &str, node: &str, record: &str) -> Result<Answer> {
    let metadata = json!({"name": name, "annotations": {RECORD: record}});
    let body = binding_with(&metadata, node);
    test.post_binding(name, &body).await
}

fn condition(pod: &Pod) -> Option<(&str, &str)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let first = conditions.first()?;
    Some((first.type_.as_str(), first.status.as_str()))
}

#[test]
fn node_annotations_labels_and_condition_arrive_in_one_change() -> Result<()> {
    in_namespace(async |test| {
        let wanted = pod("a").annotation("user/keep", "1");
        test.create_pod(wanted.annotation(RECORD, "old")).await?;
        let nominated = json!({"status": {"nominatedNodeName": "elsewhere"}});
        let created = test.pods().merge_status("a", nominated).await?;
        let version = version_of(&created)?;
        let mut changes = test.watch::<Pod>().after(version).start().await?;

        let node = test.unique("node");
        let metadata = json!({
            "name": "a",
            "uid": created.uid(),
            "resourceVersion": version.to_string(),
            "annotations": {RECORD: "new"},
            "labels": {"bound": "yes"},
        });
        let body = binding_with(&metadata, &node);
        let answer = test.post_binding("a", &body).await?;
        answer.must_be(CREATED);
        assert_eq!(answer.body["status"], "Success");

        let (kind, bound) = changes.object().await?;
        assert_eq!(kind, "MODIFIED");
        assert_eq!(node_of(&bound), Some(node.as_str()));
        assert_eq!(bound.annotations()[RECORD], "new");
        assert_eq!(bound.annotations()["user/keep"], "1");
        assert_eq!(bound.labels()["bound"], "yes");
        assert_eq!(condition(&bound), Some(("PodScheduled", "True")));
        let status = bound.status.context("no status")?;
        assert_eq!(status.nominated_node_name, None);

        // Nothing else happened: the next change is the one that the test makes here.
        let marked = test.pods().label("a", "marked", Some("yes")).await?;
        let (_, next) = changes.object().await?;
        assert_eq!(next.resource_version(), marked.resource_version());
        Ok(())
    })
}

#[test]
fn a_wrong_identity_or_a_stale_version_is_a_conflict_and_changes_nothing() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        test.pods().label("a", "touched", Some("yes")).await?;
        let other = "11111111-1111-1111-1111-111111111111";
        let stale = created.resource_version().context("no version")?;
        for (field, value, precondition) in [
            ("uid", other, "UID in precondition: 1111"),
            ("resourceVersion", &stale, "ResourceVersion in precondition"),
        ] {
            let metadata = json!({"name": "a", field: value, "annotations": {RECORD: "wrong"}});
            let body = binding_with(&metadata, "n1");
            let answer = test.post_binding("a", &body).await?;
            answer.must_be(CONFLICT);
            answer.must_say(&format!("Precondition failed: {precondition}"));
        }
        let pod = test.pods().get("a").await?;
        assert_eq!(node_of(&pod), None);
        assert!(!pod.annotations().contains_key(RECORD));
        Ok(())
    })
}

#[test]
fn a_bound_pod_is_not_bound_again_not_even_to_the_same_node() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let first = bind_with_record(test, "a", "n1", "first").await?;
        first.must_be(CREATED);
        for node in ["n1", "n2"] {
            let answer = bind_with_record(test, "a", node, "second").await?;
            answer.must_be(CONFLICT);
            answer.must_say("pod a is already assigned to node \"n1\"");
        }
        assert_eq!(test.pods().get("a").await?.annotations()[RECORD], "first");
        Ok(())
    })
}

#[test]
fn of_many_binders_at_once_one_wins_and_its_record_stays() -> Result<()> {
    in_namespace(async |test| {
        for round in 0..10 {
            let name = format!("race-{round}");
            test.pod(&name).await?;
            let nodes = ["n0", "n1", "n2", "n3"];
            let attempts = nodes.map(|node| bind_with_record(test, &name, node, node));
            let answers = try_join_all(attempts).await?;
            let mut codes: Vec<u16> = answers.iter().map(|answer| answer.code).collect();
            codes.sort_unstable();
            assert_eq!(codes, [201, 409, 409, 409]);
            let pod = test.pods().get(&name).await?;
            let record = pod.annotations().get(RECORD);
            assert_eq!(node_of(&pod), record.map(String::as_str));
        }
        Ok(())
    })
}

#[test]
fn a_pod_that_is_going_or_gated_is_not_bound() -> Result<()> {
    in_namespace(async |test| {
        let gated = pod("gated").scheduling_gate("x.io/wait");
        test.create_pod(gated).await?;
        let answer = bind(test, "gated", "n1").await?;
        answer.must_be(CONFLICT);
        answer.must_say("pod gated has non-empty .spec.schedulingGates");

        let going = pod("going").finalizer("x.io/hold");
        test.create_pod(going).await?;
        test.pods().delete("going").await?;
        let answer = bind(test, "going", "n1").await?;
        answer.must_be(CONFLICT);
        answer.must_say("pod going is being deleted, cannot be assigned to a host");
        Ok(())
    })
}

#[test]
fn the_node_is_not_looked_at_but_the_pod_must_exist() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let nowhere = test.unique("no-such-node");
        bind(test, "a", &nowhere).await?.must_be(CREATED);
        let answer = bind(test, "gone", "n1").await?;
        answer.must_be(NOT_FOUND);
        assert_eq!(answer.message(), "pods \"gone\" not found");
        Ok(())
    })
}

#[test]
fn the_old_path_binds_too() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let path = test.path("/api/v1", "bindings");
        let body = binding("a", "n1").to_string();
        test.raw().post(&path, body).await?.must_be(CREATED);
        assert_eq!(node_of(&test.pods().get("a").await?), Some("n1"));
        Ok(())
    })
}

#[test]
fn a_binding_that_makes_no_sense_is_refused() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let with = |part: &str, field: &str, value: &str| {
            let mut body = binding("a", "n1");
            body[part][field] = json!(value);
            body.to_string()
        };
        let path = test.path("/api/v1", "pods/a/binding");
        for (body, verdict) in [
            (with("metadata", "name", "b"), BAD_REQUEST),
            (with("metadata", "namespace", "elsewhere"), BAD_REQUEST),
            (with("target", "name", ""), UNFORESEEN),
            (with("target", "kind", "Pod"), UNFORESEEN),
            (r#"{"apiVersion":"v1","kind":"Pod"}"#.into(), BAD_REQUEST),
            ("{\"metadata\":".into(), BAD_REQUEST),
        ] {
            test.raw().post(&path, body).await?.must_be(verdict);
        }
        assert_eq!(node_of(&test.pods().get("a").await?), None);
        Ok(())
    })
}
