//! The lease of the extender's replicas, as the API server keeps it.

use std::time::Duration;

use anyhow::{Context, Result};
use gpushare_kube::lease::{Claim, LeaseObject};
use integration::{Scope, in_namespace};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::DeleteParams;

const NAME: &str = "leader";

fn object(test: &Scope) -> LeaseObject {
    LeaseObject::new(
        test.client(),
        test.namespace(),
        NAME,
        Duration::from_secs(30),
    )
}

fn claim(identity: &str, transitions: u64) -> Claim<'_> {
    Claim {
        identity,
        transitions,
        duration: 15_000,
    }
}

#[tokio::test]
async fn a_lease_is_created_for_nobody_taken_renewed_and_given_back() -> Result<()> {
    in_namespace(async |test| {
        let object = object(test);
        assert!(object.read().await?.is_none());
        let created = object.create(15_000).await?.context("someone was faster")?;
        assert_eq!(created.lease.holder, "");
        assert_eq!(created.lease.duration, Some(15_000));
        assert!(object.create(15_000).await?.is_none(), "it exists already");

        let now = Timestamp::now();
        let taken = object.take(&created, claim("a", 1), now).await?;
        let taken = taken.context("someone was faster")?;
        assert_eq!(
            (taken.lease.holder.as_str(), taken.lease.transitions),
            ("a", 1)
        );
        let renewed = object.take(&taken, claim("a", 1), Timestamp::now()).await?;
        let renewed = renewed.context("someone was faster")?;
        assert_ne!(renewed.lease.renewals, taken.lease.renewals);
        assert!(
            object.take(&taken, claim("b", 2), now).await?.is_none(),
            "b has seen an older one"
        );

        let back = object.give_back(&renewed, now).await?;
        let back = back.context("someone was faster")?;
        assert_eq!(
            (back.lease.holder.as_str(), back.lease.duration),
            ("", None)
        );
        assert_eq!(back.lease.transitions, 1);
        let read = object.read().await?.context("it is gone")?;
        assert_eq!(read.lease, back.lease);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_lease_that_was_deleted_is_neither_renewed_nor_given_back() -> Result<()> {
    in_namespace(async |test| {
        let object = object(test);
        let now = Timestamp::now();
        let created = object.create(15_000).await?.context("someone was faster")?;
        let taken = object.take(&created, claim("a", 1), now).await?;
        let taken = taken.context("someone was faster")?;
        let delete = DeleteParams::default();
        test.objects::<Lease>().delete(NAME, &delete).await?;
        assert!(object.take(&taken, claim("a", 1), now).await?.is_none());
        assert!(object.give_back(&taken, now).await?.is_none());
        assert!(object.read().await?.is_none());

        let anew = object.create(15_000).await?.context("someone was faster")?;
        assert!(object.take(&taken, claim("a", 1), now).await?.is_none());
        assert_eq!(
            object.read().await?.map(|seen| seen.lease),
            Some(anew.lease)
        );
        Ok(())
    })
    .await
}
