//! AdmissionReview v1: the request as the API server sends it, and the answer it understands.
//!
//! The object to be admitted is parsed in [`manifest`]; nothing here decides.

pub mod manifest;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub const API_VERSION: &str = "admission.k8s.io/v1";
pub const KIND: &str = "AdmissionReview";

/// A request to create or change an object.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub uid: String,
    pub kind: Kind,
    pub operation: String,
    /// Empty if the API server has yet to generate the name.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub sub_resource: String,
    #[serde(default)]
    pub dry_run: Option<bool>,
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object as it would be after the request.
    #[serde(default)]
    pub object: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Kind {
    pub group: String,
    pub kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    pub username: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("the body is not an AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the body is a {kind} of {api_version}, not an {KIND} of {API_VERSION}")]
    Other { api_version: String, kind: String },
    #[error("the AdmissionReview holds no request")]
    NoRequest,
    #[error("the request has no uid, so it could not be answered")]
    NoUid,
}

impl Request {
    pub fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        let question: Question = serde_json::from_slice(body)?;
        if question.api_version != API_VERSION || question.kind != KIND {
            let (api_version, kind) = (question.api_version, question.kind);
            return Err(ReviewError::Other { api_version, kind });
        }
        let request = question.request.ok_or(ReviewError::NoRequest)?;
        if request.uid.is_empty() {
            return Err(ReviewError::NoUid);
        }
        Ok(request)
    }
}

/// The whole answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    api_version: &'static str,
    kind: &'static str,
    pub response: Answer,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub uid: String,
    pub allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Refusal>,
    /// A JSON patch in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What the user reads when the request is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
}

impl From<Answer> for Review {
    fn from(response: Answer) -> Self {
        Self {
            api_version: API_VERSION,
            kind: KIND,
            response,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> String {
        Request::parse(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_review_of_this_version_is_refused_with_what_it_is() {
        assert!(error("{").starts_with("the body is not an AdmissionReview"));
        let beta = r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#;
        assert!(error(beta).contains("v1beta1"), "{}", error(beta));
        let empty = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#;
        assert!(error(empty).contains("no request"));
        let nameless = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
            "request":{"uid":"","kind":{},"operation":"CREATE"}}"#;
        assert!(error(nameless).contains("no uid"));
    }
}
