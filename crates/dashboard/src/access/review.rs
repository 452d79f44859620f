//! Asking the API server who a token belongs to, and whether that user may list pods in all namespaces.
//!
//! Answers are remembered for a short while, by the token's digest, so that a page costs the API server little and a
//! right that was taken away ends soon.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::Semaphore;

const TRUSTED_FOR: Duration = Duration::from_mins(1);
const REFUSED_FOR: Duration = Duration::from_secs(5);
const MOST_REMEMBERED: usize = 1024;
/// Strangers can make us ask; never more often at once.
const AT_ONCE: usize = 8;
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    #[error("no token: log in, or send Authorization: Bearer TOKEN")]
    NoToken,
    #[error("the Authorization header is no bearer token")]
    Unreadable,
    #[error("the API server does not know this token; make one with kubectl create token NAME")]
    Unknown,
    #[error(
        "user {0} may not list pods in all namespaces; bind the ClusterRole gpushare-dashboard-viewer to it"
    )]
    NotAllowed(String),
    #[error("the API server cannot be asked about the token: {0}")]
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
        let verdict = match tokio::time::timeout(TIMEOUT, self.ask(token)).await {
            Ok(verdict) => verdict,
            Err(_) => Err(Refusal::Unavailable("no answer in time".to_owned())),
        };
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
        let user = self.user(token).await?;
        let name = user.username.clone().unwrap_or_default();
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                resource_attributes: Some(ResourceAttributes {
                    verb: Some("list".to_owned()),
                    resource: Some("pods".to_owned()),
                    version: Some("v1".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let status = self.create(&review).await?.status;
        let allowed = status.is_some_and(|status| status.allowed && status.denied != Some(true));
        allowed.then_some(()).ok_or(Refusal::NotAllowed(name))
    }

    async fn user(&self, token: &str) -> Result<UserInfo, Refusal> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let status = self.create(&review).await?.status.unwrap_or_default();
        match (status.authenticated, status.user) {
            (Some(true), Some(user)) => Ok(user),
            _ => Err(Refusal::Unknown),
        }
    }

    async fn create<K>(&self, review: &K) -> Result<K, Refusal>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), review).await;
        answer.map_err(|error| Refusal::Unavailable(error.to_string()))
    }
}
