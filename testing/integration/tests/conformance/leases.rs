//! Leases: what leader election by resourceVersion relies on.

use anyhow::Result;
use integration::verdict::{CONFLICT, INVALID};
use integration::{Objects, Scope, in_namespace, refused};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use serde_json::json;

fn leases(test: &Scope) -> Objects<Lease> {
    test.objects()
}

async fn lease(test: &Scope, holder: &str) -> Result<Lease> {
    let lease = json!({
        "metadata": {"name": "leader"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "acquireTime": "2026-01-02T03:04:05.000000Z",
            "renewTime": "2026-01-02T03:04:05.678901Z",
        },
    });
    leases(test).create_json(lease).await
}

fn held_by(mut lease: Lease, holder: &str) -> Lease {
    lease.spec.get_or_insert_default().holder_identity = Some(holder.to_owned());
    lease
}

#[test]
fn of_two_that_saw_the_same_lease_one_takes_it() -> Result<()> {
    in_namespace(async |test| {
        let seen = lease(test, "old").await?;
        let leases = leases(test);
        let first = held_by(seen.clone(), "first");
        leases.replace(&first).await?;
        let late = leases.replace(&held_by(seen, "second")).await;
        refused(late, CONFLICT)?;
        assert_eq!(leases.get("leader").await?.spec, first.spec);
        Ok(())
    })
}

#[test]
fn a_lease_is_never_replaced_blindly() -> Result<()> {
    in_namespace(async |test| {
        let mut blind = lease(test, "old").await?;
        blind.metadata.resource_version = None;
        let refusal = refused(leases(test).replace(&blind).await, INVALID)?;
        let field = refusal.detail("causes/0/field");
        assert_eq!(field, "metadata.resourceVersion");
        Ok(())
    })
}

/// The resourceVersion alone does not prevent a write from recreating a deleted lease; the uid does.
#[test]
fn a_deleted_lease_is_not_brought_back_by_whoever_names_its_identity() -> Result<()> {
    in_namespace(async |test| {
        let mut held = lease(test, "me").await?;
        let leases = leases(test);
        leases.delete("leader").await?;
        let refusal = refused(leases.replace(&held).await, CONFLICT)?;
        let message = refusal.message();
        assert!(message.ends_with("UID in object meta: "), "{message}");
        assert!(leases.get_opt("leader").await?.is_none());

        let uid = held.metadata.uid.take();
        let made = leases.replace(&held).await?;
        assert_eq!(made.spec, held.spec);
        assert_ne!(made.metadata.uid, uid);
        Ok(())
    })
}

#[test]
fn two_that_find_no_lease_do_not_both_create_it() -> Result<()> {
    in_namespace(async |test| {
        let (one, two) = tokio::join!(lease(test, "one"), lease(test, "two"));
        let winners = [one, two].into_iter().flatten().count();
        assert_eq!(winners, 1);
        Ok(())
    })
}

#[test]
fn times_keep_their_microseconds() -> Result<()> {
    in_namespace(async |test| {
        let created = lease(test, "me").await?;
        let read = leases(test).get("leader").await?;
        assert_eq!(read, created);
        assert_eq!(read.name_any(), "leader");
        let path = test.path("/apis/coordination.k8s.io/v1", "leases/leader");
        let spec = &test.raw().get(&path).await?.body["spec"];
        assert_eq!(spec["renewTime"], "2026-01-02T03:04:05.678901Z");
        assert_eq!(spec["acquireTime"], "2026-01-02T03:04:05.000000Z");
        Ok(())
    })
}
