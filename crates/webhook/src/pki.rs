//! The webhook's own certificates: an authority (CA), what it signed, and when each is replaced.
//!
//! Everything is stored in one Secret that all replicas share. The first writer wins; the others read it again. The
//! authorities that the API server must trust are published before anything relies on them, and stay until nothing
//! relies on them. So a rotation interrupts no request.
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

/// A CA certificate that the API server trusts. Times are in seconds since 1970.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Authority {
    /// Its name in certificates, never used twice.
    name: String,
    certificate: String,
    key: String,
    created: i64,
    expires: i64,
}

/// The certificate that replicas present.
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
    /// How long old and new are both trusted before and after a rotation: longer than the API servers and the
    /// replicas take to learn of it.
    pub overlap: Duration,
}

impl Pki {
    /// The certificates that the API server must trust.
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
