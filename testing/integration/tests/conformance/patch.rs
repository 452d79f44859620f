//! The patch formats: what each merges, and what each refuses.

use anyhow::{Context, Result};
use integration::verdict::{BAD_REQUEST, CONFLICT, DONE, INVALID, NOT_FOUND, UNFORESEEN};
use integration::{in_namespace, objects, refused};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn condition<'n>(node: &'n Node, kind: &str) -> Option<&'n str> {
    let mut conditions = node.status.as_ref()?.conditions.as_ref()?.iter();
    let found = conditions.find(|condition| condition.type_ == kind);
    found.map(|condition| condition.status.as_str())
}

#[test]
fn a_merge_patch_sets_removes_and_leaves_the_rest() -> Result<()> {
    in_namespace(async |test| {
        let data = json!({"keep": "1", "change": "1", "drop": "1"});
        test.config("a", data).await?;
        let patch = json!({"data": {"change": "2", "drop": null, "new": "3"}});
        let patched = test.configs().merge("a", patch).await?;
        let expected = json!({"keep": "1", "change": "2", "new": "3"});
        assert_eq!(json!(patched.data), expected);
        Ok(())
    })
}

#[test]
fn a_patch_that_names_a_stale_version_is_a_conflict() -> Result<()> {
    in_namespace(async |test| {
        let stale = test.config("a", json!({"k": "1"})).await?;
        let configs = test.configs();
        configs.merge("a", json!({"data": {"k": "2"}})).await?;
        let stale = json!({"resourceVersion": stale.resource_version()});
        let patch = json!({"metadata": stale, "data": {"k": "3"}});
        refused(configs.merge("a", patch).await, CONFLICT)?;
        assert_eq!(json!(configs.get("a").await?.data), json!({"k": "2"}));
        Ok(())
    })
}

#[test]
fn a_patch_that_changes_nothing_makes_no_new_version() -> Result<()> {
    in_namespace(async |test| {
        let created = test.config("a", json!({"k": "1"})).await?;
        let patch = json!({"data": {"k": "1"}});
        let patched = test.configs().merge("a", patch).await?;
        assert_eq!(patched.resource_version(), created.resource_version());
        Ok(())
    })
}

#[test]
fn a_strategic_patch_merges_conditions_by_type() -> Result<()> {
    in_namespace(async |test| {
        let name = test.node("x.io/slots", "4").await?;
        let nodes = test.nodes();
        let send = async |condition: Value| {
            let patch = json!({"status": {"conditions": [condition]}});
            nodes.strategic_status(&name, patch).await
        };
        let set = async |kind: &str, status: &str| {
            send(json!({"type": kind, "status": status, "reason": "Test", "message": ""})).await
        };
        set("x.io/First", "True").await?;
        set("x.io/Second", "True").await?;
        let node = set("x.io/First", "False").await?;
        assert_eq!(condition(&node, "x.io/First"), Some("False"));
        assert_eq!(condition(&node, "x.io/Second"), Some("True"));
        let node = send(json!({"type": "x.io/First", "$patch": "delete"})).await?;
        assert_eq!(condition(&node, "x.io/First"), None);
        assert_eq!(condition(&node, "x.io/Second"), Some("True"));
        Ok(())
    })
}

#[test]
fn a_strategic_patch_finds_a_container_by_its_name() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let patch = json!({"spec": {"containers": [{"name": "main", "image": "other:2"}]}});
        let patched = test.pods().strategic("a", patch).await?;
        let containers = patched.spec.context("no spec")?.containers;
        assert_eq!(containers.len(), 1);
        assert_eq!(containers[0].image.as_deref(), Some("other:2"));
        Ok(())
    })
}

#[test]
fn a_strategic_patch_replaces_taints_and_unites_finalizers() -> Result<()> {
    in_namespace(async |test| {
        let name = test.node("x.io/slots", "4").await?;
        let patch = json!({"spec": {"taints": [{"key": "x.io/only", "effect": "NoSchedule"}]}});
        let node = test.nodes().strategic(&name, patch).await?;
        let taints = node.spec.and_then(|spec| spec.taints);
        let taints = taints.context("no taints")?;
        let keys: Vec<_> = taints.iter().map(|taint| taint.key.as_str()).collect();
        assert_eq!(keys, ["x.io/only"]);
        let pod = objects::pod("a").finalizer("x.io/one");
        test.create_pod(pod).await?;
        let patch = json!({"metadata": {"finalizers": ["x.io/two"]}});
        let patched = test.pods().strategic("a", patch).await?;
        assert_eq!(patched.finalizers(), ["x.io/two", "x.io/one"]);
        Ok(())
    })
}

#[test]
fn a_json_patch_is_done_whole_or_not_at_all() -> Result<()> {
    in_namespace(async |test| {
        test.config("a", json!({"k": "1"})).await?;
        let path = test.path("/api/v1", "configmaps/a");
        let send = async |operations: Value| {
            let (raw, body) = (test.raw(), operations.to_string());
            raw.patch(&path, "application/json-patch+json", body).await
        };
        let refusal = send(json!([
            {"op": "add", "path": "/data/new", "value": "2"},
            {"op": "test", "path": "/data/k", "value": "other"},
        ]));
        refusal.await?.must_be(INVALID);
        let unchanged = test.configs().get("a").await?;
        assert_eq!(json!(unchanged.data), json!({"k": "1"}));
        // An annotation key cannot hold a tilde.
        let refusal = send(json!([
            {"op": "test", "path": "/data/k", "value": "1"},
            {"op": "replace", "path": "/data/k", "value": "2"},
            {"op": "add", "path": "/metadata/annotations", "value": {"x.io~/y": "z"}},
        ]));
        refusal.await?.must_be(INVALID);
        let done = send(json!([
            {"op": "replace", "path": "/data/k", "value": "2"},
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "add", "path": "/metadata/annotations/x.io~1y", "value": "z"},
        ]));
        let done = done.await?;
        done.must_be(DONE);
        assert_eq!(done.body["metadata"]["annotations"], json!({"x.io/y": "z"}));
        Ok(())
    })
}

#[test]
fn a_patch_cannot_give_an_object_another_name_kind_or_shape() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let path = test.path("/api/v1", "pods/a");
        let no_list = json!({"spec": {"containers": "none"}});
        let nameless = json!({"spec": {"containers": [{"image": "nameless"}]}});
        for (kind, patch, verdict) in [
            (MERGE, json!({"metadata": {"name": "b"}}), BAD_REQUEST),
            (MERGE, json!({"metadata": {"namespace": "b"}}), BAD_REQUEST),
            (MERGE, json!({"kind": "ConfigMap"}), INVALID),
            (MERGE, json!({"metadata": {"uid": "1"}}), INVALID),
            (MERGE, no_list.clone(), INVALID),
            (STRATEGIC, no_list, INVALID),
            (STRATEGIC, nameless, UNFORESEEN),
            ("application/json", json!({}), (415, "UnsupportedMediaType")),
        ] {
            let answer = test.raw().patch(&path, kind, patch.to_string()).await?;
            answer.must_be(verdict);
        }
        Ok(())
    })
}

#[test]
fn a_missing_object_cannot_be_patched() -> Result<()> {
    in_namespace(async |test| {
        let pods = test.pods();
        refused(pods.merge("gone", json!({})).await, NOT_FOUND)?;
        refused(pods.strategic("gone", json!({})).await, NOT_FOUND)?;
        Ok(())
    })
}

#[test]
fn a_toleration_may_be_added_to_a_pod_and_not_taken_away() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let before = created.spec.and_then(|spec| spec.tolerations);
        let before = before.unwrap_or_default();
        let mut wanted = json!(before);
        let added = json!({"key": "x.io/card", "operator": "Exists", "effect": "NoSchedule"});
        wanted.as_array_mut().context("not a list")?.push(added);
        let add = json!({"spec": {"tolerations": wanted}});
        test.pods().merge("a", add).await?;
        let remove = json!({"spec": {"tolerations": before}});
        refused(test.pods().merge("a", remove).await, INVALID)?;
        Ok(())
    })
}
