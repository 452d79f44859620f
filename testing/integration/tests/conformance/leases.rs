//! Leases: what leader election by resourceVersion relies on.

use anyhow::{Context, Result};
use integration::{Scope, in_namespace, refused};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

async fn lease(test: &Scope, holder: &str) -> Result<Lease> {
    let lease = serde_json::from_value(json!({
        "metadata": {"name": "leader"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "acquireTime": "2026-01-02T03:04:05.000000Z",
            "renewTime": "2026-01-02T03:04:05.678901Z",
        },
    }))?;
    Ok(test
        .objects()
        .create(&PostParams::default(), &lease)
        .await?)
}

fn held_by(mut lease: Lease, holder: &str) -> Lease {
    lease.spec.get_or_insert_default().holder_identity = Some(holder.to_owned());
    lease
}

fn holder(lease: Lease) -> Option<String> {
    lease.spec?.holder_identity
}

#[tokio::test]
async fn of_two_that_saw_the_same_lease_one_takes_it() -> Result<()> {
    in_namespace(async |test| {
        let seen = lease(test, "old").await?;
        let leases = test.objects::<Lease>();
        let params = PostParams::default();
        leases
            .replace("leader", &params, &held_by(seen.clone(), "first"))
            .await?;
        let late = leases
            .replace("leader", &params, &held_by(seen, "second"))
            .await;
        let refusal = refused(late)?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
        assert_eq!(
            holder(leases.get("leader").await?).as_deref(),
            Some("first")
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_lease_is_never_replaced_blindly() -> Result<()> {
    in_namespace(async |test| {
        let mut blind = lease(test, "old").await?;
        blind.metadata.resource_version = None;
        let leases = test.objects::<Lease>();
        let refusal = refused(
            leases
                .replace("leader", &PostParams::default(), &blind)
                .await,
        )?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
        let cause = &refusal.details.context("no details")?.causes[0];
        assert_eq!(cause.field, "metadata.resourceVersion");
        Ok(())
    })
    .await
}

/// The resourceVersion alone does not prevent a write from recreating a deleted lease; the uid does.
#[tokio::test]
async fn a_deleted_lease_is_not_brought_back_by_whoever_names_its_identity() -> Result<()> {
    in_namespace(async |test| {
        let mut held = lease(test, "me").await?;
        let leases = test.objects::<Lease>();
        leases.delete("leader", &DeleteParams::default()).await?;
        let params = PostParams::default();
        let refusal = refused(leases.replace("leader", &params, &held).await)?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
        assert!(
            refusal.message.ends_with("UID in object meta: "),
            "{}",
            refusal.message
        );
        assert!(leases.get_opt("leader").await?.is_none());

        let uid = held.metadata.uid.take();
        let made = leases.replace("leader", &params, &held).await?;
        assert_eq!(made.spec, held.spec);
        assert_ne!(made.metadata.uid, uid);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn two_that_find_no_lease_do_not_both_create_it() -> Result<()> {
    in_namespace(async |test| {
        let (one, two) = tokio::join!(lease(test, "one"), lease(test, "two"));
        let winners = [one, two].into_iter().flatten().count();
        assert_eq!(winners, 1);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn times_keep_their_microseconds() -> Result<()> {
    in_namespace(async |test| {
        let created = lease(test, "me").await?;
        let read = test.objects::<Lease>().get("leader").await?;
        assert_eq!(read, created);
        let path = format!(
            "{}/leader",
            test.path("/apis/coordination.k8s.io/v1", "leases")
        );
        let raw = test.raw().get(&path).await?;
        assert_eq!(raw.body["spec"]["renewTime"], "2026-01-02T03:04:05.678901Z");
        assert_eq!(
            raw.body["spec"]["acquireTime"],
            "2026-01-02T03:04:05.000000Z"
        );
        assert_eq!(read.name_any(), "leader");
        Ok(())
    })
    .await
}
