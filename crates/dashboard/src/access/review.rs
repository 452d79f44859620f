//! Asking the API server who a token belongs to, and whether that user may look.
//!
//! Answers are remembered for a short while, by the token's digest, so that a page costs the API server little and a
//! right that was taken away ends soon.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gpushare_kube::access::{AccessError, Right, may, whose};
use kube::Client;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::Semaphore;

const TRUSTED_FOR: Duration = Duration::from_mins(1);
const REFUSED_FOR: Duration = Duration::from_secs(5);
const MOST_REMEMBERED: usize = 1024;
/// Strangers can make us ask; never more often at once.
const AT_ONCE: usize = 8;

/// What lets somebody look. No object stands behind it: it is there to be written into roles.
const LOOK: Right = Right {
    verb: "get",
    resource: "dashboards",
    subresource: None,
    namespace: None,
    name: None,
};

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    #[error("no token: log in, or send Authorization: Bearer TOKEN")]
    NoToken,
    #[error("the Authorization header is no bearer token")]
    Unreadable,
    #[error("the API server does not know this token; make one with kubectl create token NAME")]
    Unknown,
    #[error(
        "user {0} has not {LOOK}; bind the ClusterRole gpushare-dashboard-viewer to whoever may look"
    )]
    NotAllowed(String),
    #[error("{0}")]
    Unavailable(String),
}

/// The digest of a token.
type Key = [u8; 32];
/// What was answered, and until when it holds.
type Verdict = (Instant, Result<(), Refusal>);

pub(super) struct Reviewer {
    client: Client,
    remembered: Mutex<HashMap<Key, Verdict>>,
    asking: Semaphore,
}

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviewer").finish_non_exhaustive()
    }
}

impl From<AccessError> for Refusal {
    fn from(error: AccessError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl Reviewer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            remembered: Mutex::default(),
            asking: Semaphore::new(AT_ONCE),
        }
    }

    pub(super) async fn check(&self, token: &str) -> Result<(), Refusal> {
        let key: Key = Sha256::digest(token.as_bytes()).into();
        if let Some(verdict) = self.remembered(&key) {
            return verdict;
        }
        let _permit = self.asking.acquire().await;
        let verdict = self.ask(token).await;
        if !matches!(verdict, Err(Refusal::Unavailable(_))) {
            self.remember(key, verdict.clone());
        }
        verdict
    }

    fn remembered(&self, key: &Key) -> Option<Result<(), Refusal>> {
        let remembered = self.remembered.lock();
        let (until, verdict) = remembered.get(key)?;
        (*until > Instant::now()).then(|| verdict.clone())
    }

    fn remember(&self, key: Key, verdict: Result<(), Refusal>) {
        let now = Instant::now();
        let mut remembered = self.remembered.lock();
        if remembered.len() >= MOST_REMEMBERED {
            remembered.retain(|_, (until, _)| *until > now);
        }
        if remembered.len() >= MOST_REMEMBERED {
            remembered.clear();
        }
        let life = match verdict {
            Ok(()) => TRUSTED_FOR,
            Err(_) => REFUSED_FOR,
        };
        remembered.insert(key, (now + life, verdict));
    }

    async fn ask(&self, token: &str) -> Result<(), Refusal> {
        let user = whose(&self.client, token, &[]).await?;
        let user = user.ok_or(Refusal::Unknown)?;
        let allowed = may(&self.client, &user, &LOOK).await?;
        allowed.then_some(()).ok_or(Refusal::NotAllowed(user.name))
    }
}
