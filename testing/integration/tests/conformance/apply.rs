//! Server-side apply: owning fields, conflicts, force, and giving fields back.

use anyhow::{Context, Result};
use integration::{Scope, in_namespace, objects, refused};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

async fn apply(test: &Scope, manager: &str, force: bool, data: Value) -> kube::Result<ConfigMap> {
    let mut params = PatchParams::apply(manager);
    params.force = force;
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": data,
    });
    test.objects::<ConfigMap>()
        .patch("a", &params, &Patch::Apply(config))
        .await
}

fn data(config: ConfigMap) -> Result<Value> {
    Ok(serde_json::to_value(config.data.unwrap_or_default())?)
}

#[tokio::test]
async fn applying_creates_and_then_changes_only_what_is_applied() -> Result<()> {
    in_namespace(async |test| {
        let created = apply(test, "one", false, json!({"x": "1", "y": "1"})).await?;
        let entries = created
            .metadata
            .managed_fields
            .clone()
            .context("no managed fields")?;
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].manager.as_deref(), Some("one"));
        assert_eq!(entries[0].operation.as_deref(), Some("Apply"));
        let same = apply(test, "one", false, json!({"x": "1", "y": "1"})).await?;
        assert_eq!(same.resource_version(), created.resource_version());
        let both = apply(test, "two", false, json!({"z": "1"})).await?;
        assert_eq!(data(both)?, json!({"x": "1", "y": "1", "z": "1"}));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_field_of_another_manager_is_taken_only_by_force() -> Result<()> {
    in_namespace(async |test| {
        apply(test, "one", false, json!({"x": "1"})).await?;
        let refusal = refused(apply(test, "two", false, json!({"x": "2"})).await)?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
        let cause = &refusal.details.context("no details")?.causes[0];
        assert_eq!(cause.reason, "FieldManagerConflict");
        assert_eq!(cause.field, ".data.x");
        assert!(cause.message.contains("\"one\""), "{}", cause.message);
        apply(test, "two", false, json!({"x": "1"}))
            .await
            .context("the same value is no conflict")?;
        let taken = apply(test, "two", true, json!({"x": "2"})).await?;
        assert_eq!(data(taken)?, json!({"x": "2"}));
        let refusal = refused(apply(test, "one", false, json!({"x": "1"})).await)?;
        assert_eq!(
            refusal.code, 409,
            "the field belongs to the other manager now"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_field_no_longer_applied_goes_away_unless_someone_else_owns_it() -> Result<()> {
    in_namespace(async |test| {
        apply(test, "one", false, json!({"mine": "1", "shared": "1"})).await?;
        apply(test, "two", false, json!({"shared": "1"})).await?;
        let left = apply(test, "one", false, json!({})).await?;
        assert_eq!(data(left)?, json!({"shared": "1"}));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_plain_write_takes_fields_over_from_an_applier() -> Result<()> {
    in_namespace(async |test| {
        apply(test, "one", false, json!({"x": "1"})).await?;
        let params = PatchParams {
            field_manager: Some("plain".to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({"data": {"x": "2"}}));
        test.objects::<ConfigMap>()
            .patch("a", &params, &patch)
            .await?;
        let refusal = refused(apply(test, "one", false, json!({"x": "1"})).await)?;
        assert_eq!(refusal.code, 409);
        assert!(refusal.message.contains("\"plain\""), "{}", refusal.message);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_agent_owns_its_annotation_and_its_capacity_beside_others() -> Result<()> {
    in_namespace(async |test| {
        let name = test.unique("node");
        test.create_node(&objects::node(&name).capacity("cpu", "4").build())
            .await?;
        let params = PatchParams::apply("agent").force();
        let inventory = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": {"x.io/cards": "two"}},
        });
        test.nodes()
            .patch(&name, &params, &Patch::Apply(&inventory))
            .await?;
        let capacity = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"capacity": {"x.io/slots": "8"}},
        });
        let node: Node = test
            .nodes()
            .patch_status(&name, &params, &Patch::Apply(&capacity))
            .await?;
        assert_eq!(
            node.annotations()["x.io/cards"],
            "two",
            "applying status left it alone"
        );
        let capacity = node
            .status
            .and_then(|status| status.capacity)
            .context("no capacity")?;
        assert_eq!(capacity["cpu"].0, "4");
        assert_eq!(capacity["x.io/slots"].0, "8");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_apply_must_name_its_manager_its_kind_and_known_fields() -> Result<()> {
    in_namespace(async |test| {
        let path = format!("{}/a", test.path("/api/v1", "configmaps"));
        let full = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let mut unknown = full.clone();
        unknown["colour"] = json!("red");
        let mut renamed = full.clone();
        renamed["metadata"]["name"] = json!("b");
        for (query, body, verdict) in [
            ("", full.clone(), (422, "Invalid")),
            (
                "?fieldManager=m",
                json!({"metadata": {"name": "a"}}),
                (400, "BadRequest"),
            ),
            ("?fieldManager=m", unknown, (500, "")),
            ("?fieldManager=m", renamed, (400, "BadRequest")),
            ("?fieldManager=m", full, (201, "")),
        ] {
            let path = format!("{path}{query}");
            let answer = test
                .raw()
                .patch(&path, "application/apply-patch+yaml", body.to_string())
                .await?;
            assert_eq!(
                answer.verdict(),
                verdict,
                "{query} {body}: {}",
                answer.message()
            );
        }
        let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {k: v}\n";
        let path = format!("{path}?fieldManager=m");
        let answer = test
            .raw()
            .patch(&path, "application/apply-patch+yaml", yaml)
            .await?;
        assert_eq!(answer.body["data"], json!({"k": "v"}));
        Ok(())
    })
    .await
}
