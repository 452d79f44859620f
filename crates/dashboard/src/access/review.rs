//! Asks the API server who a token belongs to, and whether that user may view the dashboard.
//!
//! Answers are cached for a short time by the token's digest. So a page costs the API server little, and a revoked
//! permission ends soon. Unknown tokens have a limit of their own, so viewers with a session never wait for strangers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gpushare_kube::access::{Right, may, whose};
use gpushare_kube::call::CallError;
use kube::Client;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::Semaphore;

use super::strangers::{COUNTED_FOR, Strangers};

const TRUSTED_FOR: Duration = Duration::from_mins(1);
const REFUSED_FOR: Duration = Duration::from_secs(5);
const MOST_REMEMBERED: usize = 1024;
/// Concurrent reviews, separately for unknown and for known tokens. They are limited because anybody can cause them.
const AT_ONCE: usize = 4;
/// A request that waits longer than this for other reviews is refused and has to be retried.
const IN_LINE: Duration = Duration::from_secs(5);

/// The right to view the dashboard. The resource has no objects; it exists only so that roles can grant it.
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
    #[error("the Authorization header is not a bearer token")]
    Unreadable,
    #[error("the API server does not know this token; create one with kubectl create token NAME")]
    Unknown,
    #[error(
        "user {0} does not have {LOOK}; bind the ClusterRole gpushare-dashboard-viewer to the users that may see the dashboard"
    )]
    NotAllowed(String),
    #[error("too many wrong tokens were tried; try again in {} s", COUNTED_FOR.as_secs())]
    TooManyWrong,
    #[error("{0}")]
    Unavailable(String),
}

/// The digest of a token.
type Key = [u8; 32];
/// An answer, and until when it is valid.
type Verdict = (Instant, Result<(), Refusal>);

/// Who presents a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bearer {
    Anybody,
    /// A viewer who has logged in with this token before.
    Session,
}

pub(super) struct Reviewer {
    client: Client,
    remembered: Mutex<HashMap<Key, Verdict>>,
    strangers: Strangers,
    asking_for_strangers: Semaphore,
    asking_for_known: Semaphore,
}

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviewer").finish_non_exhaustive()
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl Reviewer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            remembered: Mutex::default(),
            strangers: Strangers::default(),
            asking_for_strangers: Semaphore::new(AT_ONCE),
            asking_for_known: Semaphore::new(AT_ONCE),
        }
    }

    pub(super) async fn check(&self, token: &str, by: Bearer) -> Result<(), Refusal> {
        let key: Key = Sha256::digest(token.as_bytes()).into();
        let last = self.last(&key);
        let known = by == Bearer::Session || matches!(last, Some((_, Ok(()))));
        if let Some((until, verdict)) = last
            && until > Instant::now()
        {
            return verdict;
        }
        let line = if known {
            &self.asking_for_known
        } else {
            &self.asking_for_strangers
        };
        let Ok(_permit) = tokio::time::timeout(IN_LINE, line.acquire()).await else {
            let message = "too many others are asking; try again".to_owned();
            return Err(Refusal::Unavailable(message));
        };
        if !known && !self.strangers.may_try(Instant::now()) {
            return Err(Refusal::TooManyWrong);
        }
        let verdict = self.ask(token).await;
        match &verdict {
            Err(Refusal::Unavailable(_)) => return verdict,
            Err(_) => self.strangers.was_wrong(Instant::now()),
            Ok(()) => {}
        }
        self.remember(key, verdict.clone());
        verdict
    }

    /// The last answer about the token, even if it has expired.
    fn last(&self, key: &Key) -> Option<Verdict> {
        self.remembered.lock().get(key).cloned()
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
