//! The shared lease on the API server: read, create, replace.
//!
//! [`gpushare_core::lease`] decides what to do. Every write names the version it is based on and the
//! object's uid (the version alone would allow it to recreate a deleted lease), so it does not overwrite
//! a lease that changed in between: that is a lost race, not an error. The times in the object are for
//! people; this code does not read them.

use std::time::Duration;

use gpushare_core::lease::{Lease, Millis};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{self, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use thiserror::Error;

/// The duration that marks a lease as given back, as opposed to one whose holder was removed by hand. It is the
/// shortest that the API server accepts, and what client-go writes.
const GIVEN_BACK_SECONDS: i32 = 1;

#[derive(Debug, Error)]
#[error("cannot {doing} lease {namespace}/{name}: {cause}")]
pub struct LeaseError {
    pub doing: &'static str,
    pub namespace: String,
    pub name: String,
    pub cause: Cause,
}

#[derive(Debug, Error)]
pub enum Cause {
    #[error("{0}{hint}", hint = hint(.0))]
    Api(Box<kube::Error>),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// The lease object of one name.
#[derive(Clone)]
pub struct LeaseObject {
    api: Api<v1::Lease>,
    namespace: String,
    name: String,
    limit: Duration,
}

impl std::fmt::Debug for LeaseObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LeaseObject({}/{})", self.namespace, self.name)
    }
}

/// The lease as it was read; writes are based on it.
#[derive(Clone, Debug)]
pub struct ObservedLease {
    pub lease: Lease,
    object: v1::Lease,
}

/// Who takes a lease, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub identity: &'a str,
    pub transitions: u64,
    pub duration: Millis,
}

impl LeaseObject {
    /// Each request times out after `limit`.
    pub fn new(client: Client, namespace: &str, name: &str, limit: Duration) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            limit,
        }
    }

    pub async fn read(&self) -> Result<Option<ObservedLease>, LeaseError> {
        let read = self.limited("read", self.api.get_opt(&self.name)).await?;
        Ok(read.map(ObservedLease::new))
    }

    /// Creates the lease without a holder. Returns `None` if another replica was faster.
    pub async fn create(&self, duration: Millis) -> Result<Option<ObservedLease>, LeaseError> {
        let object = v1::Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                lease_duration_seconds: Some(seconds(duration)),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            }),
        };
        let params = PostParams::default();
        let created = self.limited("create", self.api.create(&params, &object));
        Ok(unless_lost(created.await)?.map(ObservedLease::new))
    }

    /// Writes the claimant as the holder. Returns `None` if the lease has changed since it was read.
    pub async fn take(
        &self,
        observed: &ObservedLease,
        claim: Claim<'_>,
        now: Timestamp,
    ) -> Result<Option<ObservedLease>, LeaseError> {
        let mut object = observed.object.clone();
        let spec = object.spec.get_or_insert_default();
        let transitions = i32::try_from(claim.transitions).unwrap_or(i32::MAX);
        if spec.lease_transitions != Some(transitions) {
            spec.acquire_time = Some(MicroTime(now));
        }
        spec.holder_identity = Some(claim.identity.to_owned());
        spec.lease_transitions = Some(transitions);
        spec.lease_duration_seconds = Some(seconds(claim.duration));
        spec.renew_time = Some(MicroTime(now));
        self.replace("take", observed, &object).await
    }

    /// Removes the holder, so that any replica can take the lease. Returns `None` if it has changed since it was read.
    pub async fn give_back(
        &self,
        observed: &ObservedLease,
        now: Timestamp,
    ) -> Result<Option<ObservedLease>, LeaseError> {
        let mut object = observed.object.clone();
        let spec = object.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(GIVEN_BACK_SECONDS);
        spec.renew_time = Some(MicroTime(now));
        self.replace("give back", observed, &object).await
    }

    /// Returns `None` also if nothing changed: the API server does not store such a write and other replicas
    /// do not see it, so it is no renewal.
    async fn replace(
        &self,
        doing: &'static str,
        observed: &ObservedLease,
        object: &v1::Lease,
    ) -> Result<Option<ObservedLease>, LeaseError> {
        let params = PostParams::default();
        let replaced = self.limited(doing, self.api.replace(&self.name, &params, object));
        let written = unless_lost(replaced.await)?.map(ObservedLease::new);
        Ok(written.filter(|written| written.lease.renewals != observed.lease.renewals))
    }

    async fn limited<T>(
        &self,
        doing: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, LeaseError> {
        let cause = match tokio::time::timeout(self.limit, request).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => Cause::Api(Box::new(error)),
            Err(_elapsed) => Cause::Timeout(self.limit),
        };
        Err(LeaseError {
            doing,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            cause,
        })
    }
}

impl ObservedLease {
    fn new(object: v1::Lease) -> Self {
        let spec = object.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        let given_back = spec.lease_duration_seconds == Some(GIVEN_BACK_SECONDS);
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default());
        let lease = Lease {
            renewals: object.metadata.resource_version.clone().unwrap_or_default(),
            transitions: u64::try_from(spec.lease_transitions.unwrap_or_default()).unwrap_or(0),
            duration: if holder.is_empty() && given_back {
                None
            } else {
                Some(seconds.unwrap_or(0).saturating_mul(1000))
            },
            holder,
        };
        Self { lease, object }
    }
}

fn seconds(duration: Millis) -> i32 {
    i32::try_from(duration.div_ceil(1000)).unwrap_or(i32::MAX)
}

/// `None` if another replica has created, changed or deleted the lease.
fn unless_lost<T>(answer: Result<T, LeaseError>) -> Result<Option<T>, LeaseError> {
    let lost = |error: &LeaseError| match &error.cause {
        Cause::Api(error) => matches!(&**error, kube::Error::Api(status) if status.code == 409),
        Cause::Timeout(_) => false,
    };
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if lost(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn hint(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "; give this account the rights in deploy/rbac.yaml"
        }
        kube::Error::Api(status) if status.code == 404 => {
            "; create its namespace, or name another with --lease-namespace"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(spec: &serde_json::Value) -> Lease {
        let object = serde_json::json!({"metadata": {"resourceVersion": "7"}, "spec": spec});
        ObservedLease::new(serde_json::from_value(object).unwrap()).lease
    }

    #[test]
    fn only_a_lease_that_says_so_was_given_back() {
        for (spec, duration) in [
            (
                serde_json::json!({"leaseDurationSeconds": 1, "leaseTransitions": 3}),
                None,
            ),
            (
                serde_json::json!({"leaseDurationSeconds": 15}),
                Some(15_000),
            ),
            (
                serde_json::json!({"holderIdentity": "a", "leaseDurationSeconds": 1}),
                Some(1_000),
            ),
            (serde_json::json!({}), Some(0)),
            (serde_json::Value::Null, Some(0)),
        ] {
            assert_eq!(observed(&spec).duration, duration, "{spec}");
        }
    }

    #[test]
    fn the_version_tells_one_renewal_from_the_next() {
        let lease = observed(&serde_json::json!({"holderIdentity": "a", "leaseTransitions": 3}));
        assert_eq!((lease.renewals.as_str(), lease.transitions), ("7", 3));
        assert_eq!(lease.holder, "a");
    }
}
