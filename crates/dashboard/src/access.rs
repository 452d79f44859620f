//! Who may look: everybody on this machine, or whoever the API server lets.
//!
//! The page shows pods and nodes of all namespaces, so looking is a right of its own, which roles give. A
//! browser sends its token once and then a session's id, which scripts cannot read and other sites cannot send.

mod review;
mod sessions;
mod strangers;

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use kube::Client;

pub use review::Refusal;
use review::{Bearer, Reviewer};
use sessions::Sessions;

/// Longer than any token that an API server issues.
const LONGEST_TOKEN: usize = 16 * 1024;

/// Who may look.
#[derive(Debug)]
pub enum Access {
    /// Everybody who can connect: for loopback addresses only.
    Open,
    /// Whoever has a token with the right to look.
    Tokens(Box<Tokens>),
}

impl Access {
    pub fn tokens(client: Client) -> Self {
        Self::Tokens(Box::new(Tokens {
            reviewer: Reviewer::new(client),
            sessions: Sessions::default(),
        }))
    }
}

#[derive(Debug)]
pub struct Tokens {
    reviewer: Reviewer,
    sessions: Sessions,
}

impl Tokens {
    /// Whether the request may look.
    pub(crate) async fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if let Some(token) = bearer(headers)? {
            return self.reviewer.check(token, Bearer::Anybody).await;
        }
        let session = session(headers).and_then(|id| self.sessions.token(id));
        let token = session.ok_or(Refusal::NoToken)?;
        self.reviewer.check(&token, Bearer::Session).await
    }

    /// Begins a session with the request's token; the cookie that stands for it.
    pub(crate) async fn log_in(&self, headers: &HeaderMap) -> Result<HeaderValue, Refusal> {
        let token = bearer(headers)?.ok_or(Refusal::NoToken)?;
        self.reviewer.check(token, Bearer::Anybody).await?;
        Ok(self.sessions.begin(token))
    }

    /// Ends the request's session; the cookie that forgets it.
    pub(crate) fn log_out(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(id) = session(headers) {
            self.sessions.end(id);
        }
        sessions::forgotten()
    }
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Ok(None);
    };
    let token = value
        .to_str()
        .ok()
        .and_then(|text| text.strip_prefix("Bearer "));
    match token.map(str::trim) {
        Some(token) if !token.is_empty() && token.len() <= LONGEST_TOKEN => Ok(Some(token)),
        _ => Err(Refusal::Unreadable),
    }
}

fn session(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(name, value)| (name == sessions::COOKIE_NAME).then_some(value))
}
