//! What went wrong, as a client reads it: always JSON, with a message that says what to do.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gpushare_ledger::money::MoneyError;
use gpushare_ledger::period::PeriodError;
use gpushare_ledger::store::StoreError;
use schemars::JsonSchema;
use serde::Serialize;

use super::RecordingError;
use super::grant_request::GrantRequestError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    /// For programs.
    reason: &'static str,
    message: String,
    /// Seconds.
    retry_after: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Problem")]
pub(super) struct Body<'a> {
    /// The status of the answer.
    code: u16,
    /// For programs.
    reason: &'a str,
    /// For people.
    message: &'a str,
}

impl Problem {
    fn new(status: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            reason,
            message: message.into(),
            retry_after: None,
        }
    }

    /// A field or parameter of the request is wrong.
    pub(super) fn invalid(field: &str, message: impl std::fmt::Display) -> Self {
        let message = format!("{field}: {message}");
        Self::new(StatusCode::BAD_REQUEST, "Invalid", message)
    }

    pub(super) fn unauthenticated(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthenticated", message)
    }

    pub(super) fn forbidden(message: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    pub(super) fn not_found(reason: &'static str, message: String) -> Self {
        Self::new(StatusCode::NOT_FOUND, reason, message)
    }

    pub(super) fn conflict(message: String) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    pub(super) fn gone(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Gone", message)
    }

    pub(super) fn too_large(message: String) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", message)
    }

    pub(super) fn too_many(seconds: u64) -> Self {
        let message = format!("too many requests: wait {seconds} s, and ask less often");
        Self {
            retry_after: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
        }
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(5),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", message)
        }
    }

    /// For a request that was refused before it reached a handler.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let (reason, message) = match status {
            StatusCode::NOT_FOUND => ("NoSuchPath", "there is no such path; see /openapi.json"),
            StatusCode::METHOD_NOT_ALLOWED => (
                "MethodNotAllowed",
                "the path does not know this method; see /openapi.json",
            ),
            status => {
                let text = status.canonical_reason().unwrap_or("the request failed");
                ("Refused", text)
            }
        };
        Self::new(status, reason, message)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(why) => Self::invalid("the request", why),
            StoreError::Fenced { .. } => {
                Self::unavailable("another replica keeps the ledger now: try again")
            }
            other => {
                tracing::error!(error = &other as &dyn std::error::Error, "a request failed");
                Self::unavailable(
                    "the ledger cannot be read or written now: try again, or see the timekeeper's log",
                )
            }
        }
    }
}

impl From<GrantRequestError> for Problem {
    fn from(error: GrantRequestError) -> Self {
        Self::invalid(error.field, error.message)
    }
}

impl From<RecordingError> for Problem {
    fn from(error: RecordingError) -> Self {
        match error {
            RecordingError::NotTheWriter(why) => Self::unavailable(why),
            RecordingError::Store(error) => Self::from(error),
        }
    }
}

impl From<MoneyError> for Problem {
    fn from(error: MoneyError) -> Self {
        Self::from(StoreError::from(error))
    }
}

impl From<PeriodError> for Problem {
    fn from(error: PeriodError) -> Self {
        Self::invalid("the time", error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Body {
            code: self.status.as_u16(),
            reason: self.reason,
            message: &self.message,
        };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
