//! How long a client may take, how many may connect, and how many files the process may have open.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A listener takes at most one part in this many of the file descriptors. The process needs others: for a second
/// listener, the API server, the ledger, and certificates that are read again.
const PART_OF_DESCRIPTORS: usize = 4;

/// What one listener grants to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections in all; fewer if the process may not have that many files open.
    pub connections: usize,
    /// Open connections of one address. It may be a NAT, an ingress or a host with many processes.
    pub per_client: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long the headers of a request may take, counted on a new connection from its start.
    pub head: Duration,
    /// How long a request's whole body may take.
    pub body: Duration,
    /// How long a connection may wait for its next request. Go clients, such as kube-scheduler and the API server,
    /// close an idle connection after 90 seconds. They must close it first, or a request could arrive as we close it.
    pub idle: Duration,
    /// How long a client may go without taking any of the bytes that are sent to it.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self::STANDARD
    }
}

impl Limits {
    pub const STANDARD: Self = Self {
        connections: 4096,
        per_client: 1024,
        handshake: Duration::from_secs(10),
        head: Duration::from_secs(10),
        body: Duration::from_secs(10),
        idle: Duration::from_mins(3),
        stall: Duration::from_secs(30),
    };

    /// The same limits, with no more connections than the process has descriptors for.
    pub(super) fn within_descriptors(self) -> Self {
        self.with_at_most((descriptors() / PART_OF_DESCRIPTORS).max(1))
    }

    /// The same limits, with fewer connections if necessary; one client may still have the same fraction of them.
    fn with_at_most(self, connections: usize) -> Self {
        if connections >= self.connections {
            return self;
        }
        let per_client = self.per_client.saturating_mul(connections) / self.connections;
        Self {
            connections,
            per_client: per_client.max(1),
            ..self
        }
    }
}

/// How many files this process may have open, after raising the limit as far as possible.
fn descriptors() -> usize {
    static RAISED: OnceLock<usize> = OnceLock::new();
    *RAISED.get_or_init(|| {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        let limit = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => maximum,
            Err(error) => {
                tracing::warn!(%error, ?current, "cannot raise the limit of open files");
                current
            }
        };
        limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_fewer_connections_one_client_may_still_have_no_more_than_its_part() {
        let per_client = |limits: Limits, most| limits.with_at_most(most).per_client;
        assert_eq!(per_client(Limits::STANDARD, 5000), 1024);
        assert_eq!(per_client(Limits::STANDARD, 1024), 256);
        assert_eq!(per_client(Limits::STANDARD, 1), 1);
        let of_one_client = Limits {
            connections: 64,
            per_client: 64,
            ..Limits::STANDARD
        };
        assert_eq!(per_client(of_one_client, 20), 20);
    }

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        let limits = Limits {
            connections: usize::MAX,
            ..Limits::default()
        };
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let most = limits.within_descriptors().connections;
        let maximum = maximum.unwrap_or(u64::MAX);
        assert!(u64::try_from(most).unwrap() <= maximum / 4, "{most}");
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum, "the limit was raised");
    }
}
