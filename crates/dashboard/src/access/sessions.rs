//! Sessions of browsers, in memory only: a restart ends them all. Their number is bounded, and each expires.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use parking_lot::Mutex;
use uuid::Uuid;

/// The prefix makes browsers send it only to this host and only over HTTPS.
pub(super) const COOKIE_NAME: &str = "__Host-gpushare";
/// A working day; the token itself may expire before.
const LIFE: Duration = Duration::from_hours(8);
/// When there are more, the oldest is ended.
const MOST: usize = 1000;

#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Session>>);

struct Session {
    token: String,
    ends: Instant,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sessions({})", self.0.lock().len())
    }
}

impl Sessions {
    pub(super) fn begin(&self, token: &str) -> HeaderValue {
        // Twice 122 random bits.
        let id = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let now = Instant::now();
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| session.ends > now);
        while sessions.len() >= MOST {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.ends);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                break;
            };
            sessions.remove(&oldest);
        }
        let session = Session {
            token: token.to_owned(),
            ends: now + LIFE,
        };
        sessions.insert(id.clone(), session);
        cookie(&id, LIFE)
    }

    pub(super) fn token(&self, id: &str) -> Option<String> {
        let sessions = self.0.lock();
        let session = sessions.get(id)?;
        (session.ends > Instant::now()).then(|| session.token.clone())
    }

    pub(super) fn end(&self, id: &str) {
        self.0.lock().remove(id);
    }
}

/// A cookie that makes the browser forget its session.
pub(super) fn forgotten() -> HeaderValue {
    cookie("", Duration::ZERO)
}

fn cookie(id: &str, life: Duration) -> HeaderValue {
    let text = format!(
        "{COOKIE_NAME}={id}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={}",
        life.as_secs()
    );
    let mut value = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(cookie: &HeaderValue) -> String {
        let text = cookie.to_str().unwrap();
        let (_, rest) = text.split_once('=').unwrap();
        rest.split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_session_stands_for_its_token_until_it_ends() {
        let sessions = Sessions::default();
        let id = id(&sessions.begin("secret"));
        assert_eq!(sessions.token(&id).as_deref(), Some("secret"));
        assert_eq!(sessions.token("guess"), None);
        sessions.end(&id);
        assert_eq!(sessions.token(&id), None);
    }

    #[test]
    fn only_the_oldest_of_too_many_sessions_end() {
        let sessions = Sessions::default();
        let first = id(&sessions.begin("first"));
        let second = id(&sessions.begin("second"));
        for _ in 0..MOST - 1 {
            sessions.begin("other");
        }
        assert_eq!(sessions.token(&first), None);
        assert_eq!(sessions.token(&second).as_deref(), Some("second"));
    }

    #[test]
    fn the_cookie_is_out_of_reach_of_scripts_and_of_other_sites() {
        let cookie = Sessions::default().begin("secret");
        let text = cookie.to_str().unwrap();
        for attribute in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(text.contains(attribute), "{text}");
        }
        assert!(!text.contains("secret"));
    }
}
