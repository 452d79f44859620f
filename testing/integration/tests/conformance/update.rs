//! Replacing objects: optimistic locking, identity, and writes that change nothing.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use integration::{Scope, in_namespace, refused};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{ObjectMeta, PostParams};

async fn config(test: &Scope, value: &str) -> Result<ConfigMap> {
    let config = ConfigMap {
        metadata: ObjectMeta {
            name: Some("a".to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    };
    Ok(test
        .objects()
        .create(&PostParams::default(), &config)
        .await?)
}

fn with_value(mut config: ConfigMap, value: &str) -> ConfigMap {
    config.data = Some(BTreeMap::from([("key".to_owned(), value.to_owned())]));
    config
}

#[tokio::test]
async fn of_two_writers_with_the_same_version_the_second_is_told_to_read_again() -> Result<()> {
    in_namespace(async |test| {
        let configs = test.objects::<ConfigMap>();
        let read = config(test, "0").await?;
        let params = PostParams::default();
        let first = configs
            .replace("a", &params, &with_value(read.clone(), "1"))
            .await?;
        assert_ne!(first.resource_version(), read.resource_version());
        let refusal = refused(configs.replace("a", &params, &with_value(read, "2")).await)?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
        assert!(
            refusal.message.contains("the object has been modified"),
            "{}",
            refusal.message
        );
        assert_eq!(configs.get("a").await?, first);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_replacement_without_a_version_wins_over_whatever_is_there() -> Result<()> {
    in_namespace(async |test| {
        let read = config(test, "0").await?;
        let mut forced = with_value(read.clone(), "1");
        forced.metadata.resource_version = None;
        let params = PostParams::default();
        let written = test
            .objects::<ConfigMap>()
            .replace("a", &params, &forced)
            .await?;
        assert_eq!(written.uid(), read.uid());
        assert_eq!(written.data.context("no data")?["key"], "1");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_object_of_another_identity_is_not_replaced() -> Result<()> {
    in_namespace(async |test| {
        let mut other = config(test, "0").await?;
        other.metadata.uid = Some("11111111-1111-1111-1111-111111111111".to_owned());
        other.metadata.resource_version = None;
        let params = PostParams::default();
        let refusal = refused(
            test.objects::<ConfigMap>()
                .replace("a", &params, &other)
                .await,
        )?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
        assert!(
            refusal.message.contains("Precondition failed: UID"),
            "{}",
            refusal.message
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_missing_object_is_not_made_by_replacing_it() -> Result<()> {
    in_namespace(async |test| {
        let mut gone = config(test, "0").await?;
        gone.metadata = ObjectMeta {
            name: Some("gone".to_owned()),
            ..ObjectMeta::default()
        };
        let params = PostParams::default();
        let refusal = refused(
            test.objects::<ConfigMap>()
                .replace("gone", &params, &gone)
                .await,
        )?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (404, "NotFound"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn writing_what_is_already_there_makes_no_new_version() -> Result<()> {
    in_namespace(async |test| {
        let read = config(test, "0").await?;
        let params = PostParams::default();
        let again = test
            .objects::<ConfigMap>()
            .replace("a", &params, &read)
            .await?;
        assert_eq!(again.resource_version(), read.resource_version());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_spec_of_a_pod_is_fixed_and_its_node_cannot_be_written() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let params = PostParams::default();
        let change = |edit: fn(&mut Pod)| {
            let mut changed = created.clone();
            edit(&mut changed);
            changed
        };
        let bound = change(|pod| {
            pod.spec.get_or_insert_default().node_name = Some("n1".to_owned());
        });
        let slower = change(|pod| {
            pod.spec.get_or_insert_default().scheduler_name = Some("other".to_owned());
        });
        for forbidden in [bound, slower] {
            let refusal = refused(test.pods().replace("a", &params, &forbidden).await)?;
            assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
            assert_eq!(
                refusal.details.context("no details")?.causes[0].field,
                "spec"
            );
        }
        let image = change(|pod| {
            pod.spec.get_or_insert_default().containers[0].image = Some("other:1".to_owned());
        });
        let updated = test.pods().replace("a", &params, &image).await?;
        assert_eq!(updated.metadata.generation, Some(2));
        Ok(())
    })
    .await
}
