//! The lease by which the replicas of a role agree on their leader.

use std::time::Duration;

use clap::{ArgAction, Args};
use gpushare_core::lease::{Timing, TimingError};
use gpushare_daemon::args::duration;
use rustix::system::uname;
use thiserror::Error;
use uuid::Uuid;

use crate::leader::election::Election;

#[derive(Args, Clone, Debug)]
pub struct LeaseArgs {
    /// Act only while this replica holds the lease; give =false only if no other replica can run
    #[arg(
        long, env = "GPUSHARE_LEADER_ELECT", default_value_t = true, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub leader_elect: bool,

    /// Namespace of the lease
    #[arg(
        long,
        env = "GPUSHARE_LEASE_NAMESPACE",
        default_value = "gpushare-system"
    )]
    pub lease_namespace: String,

    /// How long the other replicas wait for a lease that is not renewed, in whole seconds
    #[arg(long, env = "GPUSHARE_LEASE_DURATION", default_value = "15s", value_parser = duration)]
    pub lease_duration: Duration,

    /// How long after its last renewal a leader continues to act
    #[arg(long, env = "GPUSHARE_LEASE_RENEW_DEADLINE", default_value = "10s", value_parser = duration)]
    pub lease_renew_deadline: Duration,

    /// Pause between two attempts to take or to renew the lease
    #[arg(long, env = "GPUSHARE_LEASE_RETRY", default_value = "2s", value_parser = duration)]
    pub lease_retry: Duration,

    /// Name of this replica in the lease, followed by a random part; by default the host's name
    #[arg(long, env = "POD_NAME")]
    pub replica_name: Option<String>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LeaseArgsError {
    #[error(transparent)]
    Timing(#[from] TimingError),
    #[error("--lease-namespace and --lease-name must not be empty")]
    Name,
}

impl LeaseArgs {
    /// The election for the lease of this name; `None` if leader election is off. `longest_write` is how long after
    /// its start a write of the leader can still take effect.
    pub fn election(
        &self,
        name: &str,
        longest_write: Duration,
    ) -> Result<Option<Election>, LeaseArgsError> {
        if !self.leader_elect {
            return Ok(None);
        }
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let timing = Timing {
            duration: millis(self.lease_duration),
            renew_deadline: millis(self.lease_renew_deadline),
            retry: millis(self.lease_retry),
        };
        timing.check(millis(longest_write))?;
        if self.lease_namespace.is_empty() || name.is_empty() {
            return Err(LeaseArgsError::Name);
        }
        let host = || uname().nodename().to_string_lossy().into_owned();
        let replica = self.replica_name.clone().unwrap_or_else(host);
        Ok(Some(Election {
            namespace: self.lease_namespace.clone(),
            name: name.to_owned(),
            identity: format!("{replica}_{}", Uuid::new_v4().simple()),
            timing,
        }))
    }
}
