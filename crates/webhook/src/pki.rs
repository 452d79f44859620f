//! The webhook's own certificates: an authority, what it signed, and when each makes way for the next.
//!
//! Everything stands in one Secret that all replicas share; whoever writes it first wins, the others read it
//! again. What the API server must believe (the authorities) is published before anything relies on it, and
//! stays until nothing does, so a change of certificates is seen by nobody.
//!
//! [`plan`] decides, `issue` signs, `keep` reads and writes. Private keys leave memory for the Secret only.

mod issue;
mod keep;
mod plan;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(super) use keep::Keeper;
pub use keep::Settings;

/// The content of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pki {
    /// Oldest first.
    authorities: Vec<Authority>,
    serving: Option<Serving>,
}

/// A certificate that the API server believes. Times are in seconds since 1970.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Authority {
    /// Its name in certificates, never used twice.
    name: String,
    certificate: String,
    key: String,
    created: i64,
    expires: i64,
}

/// The certificate that replicas show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Serving {
    authority: String,
    certificate: String,
    key: String,
    names: Vec<String>,
    created: i64,
    expires: i64,
}

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    pub authority: Duration,
    pub certificate: Duration,
    /// How long before and after a change old and new are both believed: more than the API servers and the
    /// replicas take to learn of a change.
    pub overlap: Duration,
}

impl Pki {
    /// What the API server is to believe.
    fn bundle(&self) -> String {
        let certificates = self.authorities.iter();
        certificates
            .map(|authority| authority.certificate.as_str())
            .collect()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("name", &self.name)
            .field("created", &self.created)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving")
            .field("authority", &self.authority)
            .field("names", &self.names)
            .field("created", &self.created)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}
