//! The lease of the extender's replicas, as the API server keeps it.

use std::time::Duration;

use anyhow::{Context, Result};
use gpushare_kube::lease::{Claim, LeaseObject, ObservedLease};
use integration::{Scope, in_namespace};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;

const NAME: &str = "leader";

fn object(test: &Scope) -> LeaseObject {
    let limit = Duration::from_secs(30);
    LeaseObject::new(test.client(), test.namespace(), NAME, limit)
}

async fn create(object: &LeaseObject) -> Result<ObservedLease> {
    let created = object.create(15_000).await?;
    created.context("someone was faster")
}

/// Takes the lease as it was seen; `None` if it has changed since.
async fn take(
    object: &LeaseObject,
    observed: &ObservedLease,
    identity: &str,
    transitions: u64,
) -> Result<Option<ObservedLease>> {
    let claim = Claim {
        identity,
        transitions,
        duration: 15_000,
    };
    Ok(object.take(observed, claim, Timestamp::now()).await?)
}

#[test]
fn a_lease_is_created_for_nobody_taken_renewed_and_given_back() -> Result<()> {
    in_namespace(async |test| {
        let object = object(test);
        assert!(object.read().await?.is_none());
        let created = create(&object).await?;
        assert_eq!(created.lease.holder, "");
        assert_eq!(created.lease.duration, Some(15_000));
        assert!(object.create(15_000).await?.is_none(), "it exists already");

        let taken = take(&object, &created, "a", 1).await?;
        let taken = taken.context("someone was faster")?;
        assert_eq!(taken.lease.holder, "a");
        assert_eq!(taken.lease.transitions, 1);
        let renewed = take(&object, &taken, "a", 1).await?;
        let renewed = renewed.context("someone was faster")?;
        assert_ne!(renewed.lease.renewals, taken.lease.renewals);
        let late = take(&object, &taken, "b", 2).await?;
        assert!(late.is_none(), "b has seen an older one");

        let back = object.give_back(&renewed, Timestamp::now()).await?;
        let back = back.context("someone was faster")?.lease;
        assert_eq!((back.holder.as_str(), back.duration), ("", None));
        assert_eq!(back.transitions, 1);
        let read = object.read().await?.context("it is gone")?;
        assert_eq!(read.lease, back);
        Ok(())
    })
}

#[test]
fn a_lease_that_was_deleted_is_neither_renewed_nor_given_back() -> Result<()> {
    in_namespace(async |test| {
        let object = object(test);
        let created = create(&object).await?;
        let taken = take(&object, &created, "a", 1).await?;
        let taken = taken.context("someone was faster")?;
        test.objects::<Lease>().delete(NAME).await?;
        assert!(take(&object, &taken, "a", 1).await?.is_none());
        let back = object.give_back(&taken, Timestamp::now()).await?;
        assert!(back.is_none());
        assert!(object.read().await?.is_none());

        let anew = create(&object).await?.lease;
        assert!(take(&object, &taken, "a", 1).await?.is_none());
        let read = object.read().await?.map(|observed| observed.lease);
        assert_eq!(read, Some(anew));
        Ok(())
    })
}
