//! Authentication and authorization of callers. The API server decides both. Its answer about a token is cached for a
//! short time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use gpushare_core::{PodUid, names};
use gpushare_kube::access::{self, Right, User};
use gpushare_kube::call::CallError;
use kube::Client;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::problem::Problem;
use super::{Api, rights};

/// How long a revoked token may still be accepted.
const BELIEVED: Duration = Duration::from_secs(30);
const REMEMBERED: usize = 4_096;
/// Longer tokens are refused. A service account's token has about 1 KiB, one of an identity provider rarely more than 8.
const LONGEST_TOKEN: usize = 16 * 1024;
/// Concurrent reviews that are sent to the API server.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);

type Fingerprint = [u8; 32];

pub(super) struct Access {
    client: Client,
    /// By the tokens' fingerprints: a token itself is never kept.
    believed: Mutex<BTreeMap<Fingerprint, (Instant, Arc<User>)>>,
    asking: Semaphore,
}

/// A user whose token is valid.
#[derive(Clone, Debug)]
pub(super) struct Caller(Arc<User>);

impl Caller {
    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// The pod to which the token is bound, if any.
    pub(super) fn pod(&self) -> Option<PodUid> {
        self.0.pod_uid().map(PodUid::new)
    }

    /// The name under which requests are counted. Each pod of a service account is counted separately.
    fn counted_as(&self) -> String {
        match self.0.pod_uid() {
            Some(pod) => format!("{} {pod}", self.0.name),
            None => self.0.name.clone(),
        }
    }
}

impl FromRequestParts<Api> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let shared = &api.0;
        let caller = shared.access.caller(&parts.headers).await;
        let caller = caller.inspect_err(|_| {
            shared.metrics.denied("unauthenticated");
            tracing::info!(target: gpushare_daemon::logging::AUDIT, action = "deny", reason = "unauthenticated",
                method = %parts.method, path = parts.uri.path(), "a request had no good token");
        })?;
        let taken = shared.limiter.take(&caller.counted_as(), Instant::now());
        taken.map_err(|wait| {
            shared.metrics.denied("rate");
            tracing::info!(target: gpushare_daemon::logging::AUDIT, action = "deny", reason = "rate", user = caller.name(),
                method = %parts.method, path = parts.uri.path(), "somebody asks too often");
            Problem::too_many(wait.as_secs() + 1)
        })?;
        shared.books.ready().map_err(|why| {
            Problem::unavailable(format!("the timekeeper is not ready yet: {why}"))
        })?;
        Ok(caller)
    }
}

impl Api {
    /// Refuses callers that lack the right.
    pub(super) async fn require(&self, caller: &Caller, right: &Right) -> Result<(), Problem> {
        let shared = &self.0;
        if shared.access.may(&caller.0, right).await? {
            return Ok(());
        }
        shared.metrics.denied("forbidden");
        tracing::info!(target: gpushare_daemon::logging::AUDIT, action = "deny", reason = "forbidden", user = caller.name(), %right,
            "somebody lacks a right");
        let message = format!(
            "{:?} lacks {right}: ask a budget administrator for a role that grants it",
            caller.name()
        );
        Err(Problem::forbidden(message))
    }

    /// Like [`Self::require`], but a service account may always read the balance of its own namespace.
    pub(super) async fn require_balance(
        &self,
        caller: &Caller,
        namespace: &str,
    ) -> Result<(), Problem> {
        if caller.0.service_account_namespace() == Some(namespace) {
            return Ok(());
        }
        self.require(caller, &rights::read_balance(namespace)).await
    }
}

impl Access {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            believed: Mutex::default(),
            asking: Semaphore::new(AT_ONCE),
        }
    }

    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let token = bearer(headers)?;
        let fingerprint: Fingerprint = Sha256::digest(token.as_bytes()).into();
        if let Some(user) = self.remembered(&fingerprint, Instant::now()) {
            return Ok(Caller(user));
        }
        let user = self.patiently(self.whose(token)).await?.ok_or_else(|| {
            Problem::unauthenticated(
                "the token is unknown, has expired, or is for somebody else: send one of the cluster, or one with \
                 the audience gpushare-timekeeper (kubectl create token NAME --audience=gpushare-timekeeper)",
            )
        })?;
        let user = Arc::new(user);
        self.remember(fingerprint, Arc::clone(&user), Instant::now());
        Ok(Caller(user))
    }

    /// The owner of a token. The token's audience must be the timekeeper or the API server itself.
    async fn whose(&self, token: &str) -> Result<Option<User>, CallError> {
        let for_us = access::whose(&self.client, token, &[names::TIMEKEEPER_AUDIENCE]).await?;
        if for_us.is_some() {
            return Ok(for_us);
        }
        access::whose(&self.client, token, &[]).await
    }

    async fn may(&self, user: &User, right: &Right) -> Result<bool, Problem> {
        self.patiently(access::may(&self.client, user, right)).await
    }

    /// Limits concurrent requests, and waits only briefly for a free place. A flood of tokens must not become a flood of
    /// requests to the API server.
    async fn patiently<T>(
        &self,
        question: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, Problem> {
        let turn = tokio::time::timeout(PATIENCE, self.asking.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(Problem::unavailable(
                "too many tokens are being checked: try again",
            ));
        };
        question.await.map_err(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a caller cannot be judged"
            );
            Problem::unavailable(
                "the API server cannot be asked who you are and what you may: try again",
            )
        })
    }

    fn remembered(&self, fingerprint: &Fingerprint, now: Instant) -> Option<Arc<User>> {
        let believed = self.believed.lock();
        let (until, user) = believed.get(fingerprint)?;
        (now < *until).then(|| Arc::clone(user))
    }

    fn remember(&self, fingerprint: Fingerprint, user: Arc<User>, now: Instant) {
        let mut believed = self.believed.lock();
        if believed.len() >= REMEMBERED {
            believed.retain(|_, (until, _)| now < *until);
        }
        if believed.len() >= REMEMBERED {
            let soonest = believed.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(soonest) = soonest.map(|(fingerprint, _)| *fingerprint) {
                believed.remove(&soonest);
            }
        }
        believed.insert(fingerprint, (now + BELIEVED, user));
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let header = headers.get(header::AUTHORIZATION).ok_or_else(|| {
        Problem::unauthenticated("there is no token: send the header Authorization: Bearer TOKEN")
    })?;
    let token = header.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        let token = token.trim();
        let usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
        usable.then_some(token)
    });
    let token = token.ok_or_else(|| {
        Problem::unauthenticated(
            "the header Authorization cannot be understood: write Bearer and the token",
        )
    })?;
    if token.len() > LONGEST_TOKEN {
        return Err(Problem::unauthenticated("the token is longer than 16 KiB"));
    }
    Ok(token)
}
