//! The patch formats: what each merges, and what each refuses.

use anyhow::{Context, Result};
use integration::{Scope, in_namespace, objects, refused};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn config(test: &Scope, data: Value) -> Result<ConfigMap> {
    let config = serde_json::from_value(json!({"metadata": {"name": "a"}, "data": data}))?;
    Ok(test
        .objects()
        .create(&PostParams::default(), &config)
        .await?)
}

async fn node(test: &Scope) -> Result<Node> {
    test.create_node(
        &objects::node(&test.unique("node"))
            .capacity("x.io/slots", "4")
            .build(),
    )
    .await
}

fn condition<'n>(node: &'n Node, kind: &str) -> Option<&'n str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|c| c.type_ == kind)
        .map(|c| c.status.as_str())
}

#[tokio::test]
async fn a_merge_patch_sets_removes_and_leaves_the_rest() -> Result<()> {
    in_namespace(async |test| {
        config(test, json!({"keep": "1", "change": "1", "drop": "1"})).await?;
        let patch = Patch::Merge(json!({"data": {"change": "2", "drop": null, "new": "3"}}));
        let configs = test.objects::<ConfigMap>();
        let patched = configs.patch("a", &PatchParams::default(), &patch).await?;
        let expected = json!({"keep": "1", "change": "2", "new": "3"});
        assert_eq!(serde_json::to_value(patched.data)?, expected);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_patch_that_names_a_stale_version_is_a_conflict() -> Result<()> {
    in_namespace(async |test| {
        let created = config(test, json!({"k": "1"})).await?;
        let stale = created.resource_version().context("no version")?;
        let configs = test.objects::<ConfigMap>();
        let params = PatchParams::default();
        configs
            .patch("a", &params, &Patch::Merge(json!({"data": {"k": "2"}})))
            .await?;
        let patch = json!({"metadata": {"resourceVersion": stale}, "data": {"k": "3"}});
        let refusal = refused(configs.patch("a", &params, &Patch::Merge(patch)).await)?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
        assert_eq!(configs.get("a").await?.data.context("no data")?["k"], "2");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_patch_that_changes_nothing_makes_no_new_version() -> Result<()> {
    in_namespace(async |test| {
        let created = config(test, json!({"k": "1"})).await?;
        let patch = Patch::Merge(json!({"data": {"k": "1"}}));
        let configs = test.objects::<ConfigMap>();
        let patched = configs.patch("a", &PatchParams::default(), &patch).await?;
        assert_eq!(patched.resource_version(), created.resource_version());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_strategic_patch_merges_conditions_by_type() -> Result<()> {
    in_namespace(async |test| {
        let name = node(test).await?.name_any();
        let params = PatchParams::default();
        let set = |kind: &str, status: &str| {
            let condition =
                json!({"type": kind, "status": status, "reason": "Test", "message": ""});
            Patch::Strategic(json!({"status": {"conditions": [condition]}}))
        };
        test.nodes()
            .patch_status(&name, &params, &set("x.io/First", "True"))
            .await?;
        test.nodes()
            .patch_status(&name, &params, &set("x.io/Second", "True"))
            .await?;
        let node = test
            .nodes()
            .patch_status(&name, &params, &set("x.io/First", "False"))
            .await?;
        assert_eq!(condition(&node, "x.io/First"), Some("False"));
        assert_eq!(condition(&node, "x.io/Second"), Some("True"));
        let delete =
            json!({"status": {"conditions": [{"type": "x.io/First", "$patch": "delete"}]}});
        let node = test
            .nodes()
            .patch_status(&name, &params, &Patch::Strategic(delete))
            .await?;
        assert_eq!(condition(&node, "x.io/First"), None);
        assert_eq!(condition(&node, "x.io/Second"), Some("True"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_strategic_patch_finds_a_container_by_its_name() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let patch = json!({"spec": {"containers": [{"name": "main", "image": "other:2"}]}});
        let params = PatchParams::default();
        let patched = test
            .pods()
            .patch("a", &params, &Patch::Strategic(patch))
            .await?;
        let containers = patched.spec.context("no spec")?.containers;
        assert_eq!(containers.len(), 1);
        assert_eq!(containers[0].image.as_deref(), Some("other:2"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_strategic_patch_replaces_taints_and_unites_finalizers() -> Result<()> {
    in_namespace(async |test| {
        let name = node(test).await?.name_any();
        let params = PatchParams::default();
        let taints = json!({"spec": {"taints": [{"key": "x.io/only", "effect": "NoSchedule"}]}});
        let patched = test
            .nodes()
            .patch(&name, &params, &Patch::Strategic(taints))
            .await?;
        let taints = patched
            .spec
            .context("no spec")?
            .taints
            .context("no taints")?;
        assert_eq!(
            taints.iter().map(|t| t.key.as_str()).collect::<Vec<_>>(),
            ["x.io/only"]
        );
        test.create_pod(&objects::pod("a").finalizer("x.io/one").build())
            .await?;
        let more = Patch::Strategic(json!({"metadata": {"finalizers": ["x.io/two"]}}));
        let patched = test.pods().patch("a", &params, &more).await?;
        assert_eq!(patched.finalizers(), ["x.io/two", "x.io/one"]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_json_patch_is_done_whole_or_not_at_all() -> Result<()> {
    in_namespace(async |test| {
        config(test, json!({"k": "1"})).await?;
        let path = format!("{}/a", test.path("/api/v1", "configmaps"));
        let send = async |operations: Value| {
            let body = operations.to_string();
            test.raw()
                .patch(&path, "application/json-patch+json", body)
                .await
        };
        let refusal = send(json!([
            {"op": "add", "path": "/data/new", "value": "2"},
            {"op": "test", "path": "/data/k", "value": "other"},
        ]))
        .await?;
        assert_eq!(refusal.verdict(), (422, "Invalid"));
        let unchanged = test.objects::<ConfigMap>().get("a").await?;
        assert_eq!(serde_json::to_value(unchanged.data)?, json!({"k": "1"}));
        let done = send(json!([
            {"op": "test", "path": "/data/k", "value": "1"},
            {"op": "replace", "path": "/data/k", "value": "2"},
            {"op": "add", "path": "/metadata/annotations", "value": {"x.io~/y": "z"}},
        ]))
        .await?;
        assert_eq!(done.code, 422, "an annotation key cannot hold a tilde");
        let done = send(json!([
            {"op": "replace", "path": "/data/k", "value": "2"},
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "add", "path": "/metadata/annotations/x.io~1y", "value": "z"},
        ]))
        .await?;
        assert_eq!(done.code, 200, "{}", done.body);
        assert_eq!(done.body["metadata"]["annotations"], json!({"x.io/y": "z"}));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_patch_cannot_give_an_object_another_name_kind_or_shape() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let path = format!("{}/a", test.path("/api/v1", "pods"));
        let merge = "application/merge-patch+json";
        for (kind, patch, verdict) in [
            (
                merge,
                json!({"metadata": {"name": "b"}}),
                (400, "BadRequest"),
            ),
            (
                merge,
                json!({"metadata": {"namespace": "b"}}),
                (400, "BadRequest"),
            ),
            (merge, json!({"kind": "ConfigMap"}), (422, "Invalid")),
            (merge, json!({"metadata": {"uid": "1"}}), (422, "Invalid")),
            (
                merge,
                json!({"spec": {"containers": "none"}}),
                (422, "Invalid"),
            ),
            (
                STRATEGIC,
                json!({"spec": {"containers": "none"}}),
                (422, "Invalid"),
            ),
            (
                STRATEGIC,
                json!({"spec": {"containers": [{"image": "nameless"}]}}),
                (500, ""),
            ),
            ("application/json", json!({}), (415, "UnsupportedMediaType")),
        ] {
            let answer = test.raw().patch(&path, kind, patch.to_string()).await?;
            assert_eq!(
                answer.verdict(),
                verdict,
                "{kind} {patch}: {}",
                answer.message()
            );
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_missing_object_cannot_be_patched() -> Result<()> {
    in_namespace(async |test| {
        let params = PatchParams::default();
        for patch in [Patch::Merge(json!({})), Patch::Strategic(json!({}))] {
            let refusal = refused(test.pods().patch("gone", &params, &patch).await)?;
            assert_eq!((refusal.code, refusal.reason.as_str()), (404, "NotFound"));
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_toleration_may_be_added_to_a_pod_and_not_taken_away() -> Result<()> {
    in_namespace(async |test| {
        let created: Pod = test.pod("a").await?;
        let before = created
            .spec
            .and_then(|spec| spec.tolerations)
            .unwrap_or_default();
        let mut wanted = serde_json::to_value(&before)?;
        let added = json!({"key": "x.io/card", "operator": "Exists", "effect": "NoSchedule"});
        wanted.as_array_mut().context("not a list")?.push(added);
        let params = PatchParams::default();
        let add = Patch::Merge(json!({"spec": {"tolerations": wanted}}));
        test.pods().patch("a", &params, &add).await?;
        let remove = Patch::Merge(json!({"spec": {"tolerations": before}}));
        let refusal = refused(test.pods().patch("a", &params, &remove).await)?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
        Ok(())
    })
    .await
}
