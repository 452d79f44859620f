//! Who may view the dashboard: everyone on this machine, or users that the API server authorizes.
//!
//! The page shows pods and nodes of all namespaces, so viewing it is a separate permission, granted by roles. A
//! browser sends its token once and then a session id, which scripts cannot read and other sites cannot send.

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

/// Who may view the dashboard.
#[derive(Debug)]
pub enum Access {
    /// Everyone who can connect: for loopback addresses only.
    Open,
    /// Users with a token that grants the permission to view.
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
    /// Whether the request comes from a viewer.
    pub(crate) async fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if let Some(token) = bearer(headers)? {
            return self.reviewer.check(token, Bearer::Anybody).await;
        }
        let session = session(headers).and_then(|id| self.sessions.token(id));
        let token = session.ok_or(Refusal::NoToken)?;
        self.reviewer.check(&token, Bearer::Session).await
    }

    /// Begins a session with the request's token; returns its cookie.
    pub(crate) async fn log_in(&self, headers: &HeaderMap) -> Result<HeaderValue, Refusal> {
        let token = bearer(headers)?.ok_or(Refusal::NoToken)?;
        self.reviewer.check(token, Bearer::Anybody).await?;
        Ok(self.sessions.begin(token))
    }

    /// Ends the request's session; returns a cookie that removes it from the browser.
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
