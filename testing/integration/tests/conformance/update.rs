//! Replacing objects: optimistic locking, identity, and writes that change nothing.

use anyhow::{Context, Result};
use integration::verdict::{CONFLICT, INVALID, NOT_FOUND};
use integration::{Scope, in_namespace, refused};
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::json;

async fn config(test: &Scope) -> Result<ConfigMap> {
    test.config("a", json!({"key": "0"})).await
}

fn with_value(config: &ConfigMap, value: &str) -> ConfigMap {
    ConfigMap {
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..config.clone()
    }
}

#[test]
fn of_two_writers_with_the_same_version_the_second_is_told_to_read_again() -> Result<()> {
    in_namespace(async |test| {
        let read = config(test).await?;
        let configs = test.configs();
        let first = configs.replace(&with_value(&read, "1")).await?;
        assert_ne!(first.resource_version(), read.resource_version());
        let second = configs.replace(&with_value(&read, "2")).await;
        refused(second, CONFLICT)?.must_say("the object has been modified");
        assert_eq!(configs.get("a").await?, first);
        Ok(())
    })
}

#[test]
fn a_replacement_without_a_version_wins_over_whatever_is_there() -> Result<()> {
    in_namespace(async |test| {
        let read = config(test).await?;
        let mut forced = with_value(&read, "1");
        forced.metadata.resource_version = None;
        let written = test.configs().replace(&forced).await?;
        assert_eq!(written.uid(), read.uid());
        assert_eq!(written.data.context("no data")?["key"], "1");
        Ok(())
    })
}

#[test]
fn an_object_of_another_identity_is_not_replaced() -> Result<()> {
    in_namespace(async |test| {
        let mut other = config(test).await?;
        other.metadata.uid = Some("11111111-1111-1111-1111-111111111111".to_owned());
        other.metadata.resource_version = None;
        let refusal = refused(test.configs().replace(&other).await, CONFLICT)?;
        refusal.must_say("Precondition failed: UID");
        Ok(())
    })
}

#[test]
fn a_missing_object_is_not_made_by_replacing_it() -> Result<()> {
    in_namespace(async |test| {
        let mut gone = config(test).await?;
        gone.metadata = ObjectMeta {
            name: Some("gone".to_owned()),
            ..ObjectMeta::default()
        };
        refused(test.configs().replace(&gone).await, NOT_FOUND)?;
        Ok(())
    })
}

#[test]
fn writing_what_is_already_there_makes_no_new_version() -> Result<()> {
    in_namespace(async |test| {
        let read = config(test).await?;
        let again = test.configs().replace(&read).await?;
        assert_eq!(again.resource_version(), read.resource_version());
        Ok(())
    })
}

#[test]
fn the_spec_of_a_pod_is_fixed_and_its_node_cannot_be_written() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let change = async |edit: fn(&mut PodSpec)| {
            let mut changed = created.clone();
            edit(changed.spec.get_or_insert_default());
            test.pods().replace(&changed).await
        };
        let bound = change(|spec| spec.node_name = Some("n1".to_owned())).await;
        let slower = change(|spec| spec.scheduler_name = Some("other".to_owned())).await;
        for forbidden in [bound, slower] {
            let refusal = refused(forbidden, INVALID)?;
            assert_eq!(refusal.detail("causes/0/field"), "spec");
        }
        let image = change(|spec| spec.containers[0].image = Some("other:1".to_owned()));
        assert_eq!(image.await?.metadata.generation, Some(2));
        Ok(())
    })
}
