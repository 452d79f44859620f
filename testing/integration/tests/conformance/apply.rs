//! Server-side apply: owning fields, conflicts, force, and giving fields back.

use anyhow::{Context, Result};
use integration::verdict::{BAD_REQUEST, CONFLICT, CREATED, INVALID, UNFORESEEN};
use integration::{Scope, in_namespace, refused};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

async fn apply(test: &Scope, manager: &str, data: Value) -> kube::Result<ConfigMap> {
    apply_as(test, &PatchParams::apply(manager), data).await
}

async fn apply_as(test: &Scope, params: &PatchParams, data: Value) -> kube::Result<ConfigMap> {
    let metadata = json!({"name": "a"});
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let configs = test.configs().api;
    configs.patch("a", params, &Patch::Apply(config)).await
}

/// An object of the core group, to which a test adds what it applies.
fn object(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
}

#[test]
fn applying_creates_and_then_changes_only_what_is_applied() -> Result<()> {
    in_namespace(async |test| {
        let created = apply(test, "one", json!({"x": "1", "y": "1"})).await?;
        let entries = created.managed_fields();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].manager.as_deref(), Some("one"));
        assert_eq!(entries[0].operation.as_deref(), Some("Apply"));
        let same = apply(test, "one", json!({"x": "1", "y": "1"})).await?;
        assert_eq!(same.resource_version(), created.resource_version());
        let both = apply(test, "two", json!({"z": "1"})).await?;
        assert_eq!(json!(both.data), json!({"x": "1", "y": "1", "z": "1"}));
        Ok(())
    })
}

#[test]
fn a_field_of_another_manager_is_taken_only_by_force() -> Result<()> {
    in_namespace(async |test| {
        apply(test, "one", json!({"x": "1"})).await?;
        let refusal = refused(apply(test, "two", json!({"x": "2"})).await, CONFLICT)?;
        assert_eq!(refusal.detail("causes/0/reason"), "FieldManagerConflict");
        assert_eq!(refusal.detail("causes/0/field"), ".data.x");
        let cause = refusal.detail("causes/0/message");
        assert!(cause.contains("\"one\""), "{cause}");
        let same = apply(test, "two", json!({"x": "1"})).await;
        same.context("the same value is no conflict")?;
        let force = PatchParams::apply("two").force();
        let taken = apply_as(test, &force, json!({"x": "2"})).await?;
        assert_eq!(json!(taken.data), json!({"x": "2"}));
        // The field belongs to the other manager now.
        refused(apply(test, "one", json!({"x": "1"})).await, CONFLICT)?;
        Ok(())
    })
}

#[test]
fn a_field_no_longer_applied_goes_away_unless_someone_else_owns_it() -> Result<()> {
    in_namespace(async |test| {
        apply(test, "one", json!({"mine": "1", "shared": "1"})).await?;
        apply(test, "two", json!({"shared": "1"})).await?;
        let left = apply(test, "one", json!({})).await?;
        assert_eq!(json!(left.data), json!({"shared": "1"}));
        Ok(())
    })
}

#[test]
fn a_plain_write_takes_fields_over_from_an_applier() -> Result<()> {
    in_namespace(async |test| {
        apply(test, "one", json!({"x": "1"})).await?;
        let plain = PatchParams {
            field_manager: Some("plain".to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({"data": {"x": "2"}}));
        test.configs().api.patch("a", &plain, &patch).await?;
        let refusal = refused(apply(test, "one", json!({"x": "1"})).await, CONFLICT)?;
        refusal.must_say("\"plain\"");
        Ok(())
    })
}

#[test]
fn an_agent_owns_its_annotation_and_its_capacity_beside_others() -> Result<()> {
    in_namespace(async |test| {
        let name = test.node("cpu", "4").await?;
        let agent = PatchParams::apply("agent").force();
        let nodes = test.nodes().api;
        let mut inventory = object("Node", &name);
        inventory["metadata"]["annotations"] = json!({"x.io/cards": "two"});
        let inventory = Patch::Apply(inventory);
        nodes.patch(&name, &agent, &inventory).await?;
        let mut capacity = object("Node", &name);
        capacity["status"] = json!({"capacity": {"x.io/slots": "8"}});
        let capacity = Patch::Apply(capacity);
        let node = nodes.patch_status(&name, &agent, &capacity).await?;
        let cards = &node.annotations()["x.io/cards"];
        assert_eq!(cards, "two", "applying status left it alone");
        let capacity = node.status.and_then(|status| status.capacity);
        let capacity = capacity.context("no capacity")?;
        assert_eq!(capacity["cpu"].0, "4");
        assert_eq!(capacity["x.io/slots"].0, "8");
        Ok(())
    })
}

#[test]
fn an_apply_must_name_its_manager_its_kind_and_known_fields() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "configmaps/a");
        let send = async |query: &str, body: &str| {
            let (raw, path) = (test.raw(), format!("{path}{query}"));
            raw.patch(&path, "application/apply-patch+yaml", body).await
        };
        let full = object("ConfigMap", "a");
        let mut unknown = full.clone();
        unknown["colour"] = json!("red");
        let kindless = json!({"metadata": {"name": "a"}});
        for (query, body, verdict) in [
            ("", &full, INVALID),
            ("?fieldManager=m", &kindless, BAD_REQUEST),
            ("?fieldManager=m", &unknown, UNFORESEEN),
            ("?fieldManager=m", &object("ConfigMap", "b"), BAD_REQUEST),
            ("?fieldManager=m", &full, CREATED),
        ] {
            send(query, &body.to_string()).await?.must_be(verdict);
        }
        let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {k: v}\n";
        let answer = send("?fieldManager=m", yaml).await?;
        assert_eq!(answer.body["data"], json!({"k": "v"}));
        Ok(())
    })
}
