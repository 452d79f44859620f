//! What the API answers when it refuses: one value that carries the code, reason, message and details of a
//! `metav1.Status`, so that clients written for the real server take the same branches here.
//!
//! Only this module spells reasons and codes; it knows neither HTTP types nor the store.

mod cause;

use serde_json::{Map, Value, json};

pub(crate) use cause::Cause;

use crate::resource::Resource;

/// The fixed text of an optimistic-lock failure; clients show it to people.
pub(crate) const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// A refusal, ready to be rendered as a `Status` object.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Box<Details>>,
    /// A token to continue with, given when a paged list has expired.
    pub(crate) resume: Option<String>,
}

/// `metav1.StatusDetails`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) uid: String,
    pub(crate) causes: Vec<Cause>,
    pub(crate) retry_after_seconds: Option<u32>,
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            resume: None,
        }
    }

    fn about(self, resource: &Resource, name: &str) -> Self {
        self.with_details(Details {
            name: name.to_owned(),
            group: resource.group.to_owned(),
            kind: resource.plural.to_owned(),
            ..Details::default()
        })
    }

    fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// The path names a resource that this server does not serve. For a missing object, use [`Self::not_found`].
    pub(crate) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(404, "NotFound", message).with_details(Details::default())
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// A create of an object with the name of one that is still being deleted.
    pub(crate) fn already_exists_deleting(resource: &Resource, name: &str) -> Self {
        let mut failure = Self::already_exists(resource, name);
        failure.message = format!("object is being deleted: {}", failure.message);
        failure
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::conflict_on(&resource.qualified(), why, name).about(resource, name)
    }

    pub(crate) fn stale(resource: &Resource, name: &str) -> Self {
        Self::conflict(resource, name, STALE)
    }

    /// A conflict that names no object, because a fault does not know the object of the request.
    pub(crate) fn fault_conflict() -> Self {
        let message = format!("Operation cannot be fulfilled: {STALE}");
        Self::new(409, "Conflict", message)
    }

    /// A conflict on a subresource, whose qualified name (`pods/binding`) appears in message and details.
    pub(crate) fn subresource_conflict(
        resource: &Resource,
        sub: &str,
        name: &str,
        why: &str,
    ) -> Self {
        let what = format!("{}/{sub}", resource.qualified());
        let mut failure = Self::conflict_on(&what, why, name).about(resource, name);
        if let Some(details) = &mut failure.details {
            details.kind = format!("{}/{sub}", resource.plural);
        }
        failure
    }

    fn conflict_on(what: &str, why: &str, name: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} {name:?}: {why}");
        Self::new(409, "Conflict", message)
    }

    /// A conflict that names the kind instead of the resource, as failed delete preconditions do.
    pub(crate) fn kind_conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let kind = match resource.group {
            "" => resource.kind.to_owned(),
            group => format!("{}.{group}", resource.kind),
        };
        let mut failure = Self::conflict_on(&kind, why, name).about(resource, name);
        if let Some(details) = &mut failure.details {
            resource.kind.clone_into(&mut details.kind);
        }
        failure
    }

    /// Server-side apply would change fields that another manager owns.
    pub(crate) fn apply_conflict(causes: Vec<Cause>) -> Self {
        let list = causes
            .iter()
            .map(|c| format!("{}: {}", c.message, c.field))
            .collect::<Vec<_>>();
        let (number, list) = (causes.len(), list.join(", "));
        let noun = if number == 1 { "conflict" } else { "conflicts" };
        let message = format!("Apply failed with {number} {noun}: {list}");
        Self::new(409, "Conflict", message).with_details(Details {
            causes,
            ..Details::default()
        })
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, causes: Vec<Cause>) -> Self {
        Self::invalid_kind(resource.kind, resource.group, name, causes)
    }

    /// The options of a request are not valid; they have a kind of their own, such as `ListOptions`.
    pub(crate) fn invalid_options(kind: &str, causes: Vec<Cause>) -> Self {
        Self::invalid_kind(kind, "meta.k8s.io", "", causes)
    }

    pub(crate) fn invalid_kind(kind: &str, group: &str, name: &str, causes: Vec<Cause>) -> Self {
        let texts = causes.iter().map(|c| format!("{}: {}", c.field, c.message));
        let joined = match causes.len() {
            1 => texts.collect::<String>(),
            _ => format!("[{}]", texts.collect::<Vec<_>>().join(", ")),
        };
        let subject = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let message = format!("{subject} {name:?} is invalid: {joined}");
        Self::new(422, "Invalid", message).with_details(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        })
    }

    /// A JSON patch that cannot be applied (a missing path, a failed `test`).
    pub(crate) fn unprocessable_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with_details(Details::default())
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    pub(crate) fn fault_forbidden() -> Self {
        Self::new(403, "Forbidden", "forbidden: you do not have the right")
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(Details::default())
    }

    /// Containers are never run, so there is nothing to execute in or connect to.
    pub(crate) fn nothing_runs(act: &str) -> Self {
        let message = format!(
            "{act} is not possible: this cluster is simulated and runs no containers; `kubectl logs` shows what one would see"
        );
        Self::new(501, "NotImplemented", message)
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_many_requests(
        message: impl Into<String>,
        retry_after_seconds: Option<u32>,
    ) -> Self {
        Self::new(429, "TooManyRequests", message).with_details(Details {
            retry_after_seconds,
            ..Details::default()
        })
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        let text = format!("Internal error occurred: {message}");
        Self::new(500, "InternalError", text).with_cause("", message.to_string(), "")
    }

    /// An admission webhook denied the request; its status says why.
    pub(crate) fn denied(webhook: &str, status: Option<&Value>) -> Self {
        let text = |field: &str| {
            let value = status.and_then(|status| status.get(field)?.as_str());
            value.unwrap_or_default()
        };
        let said = match (text("message"), text("reason")) {
            ("", "") => " without explanation".to_owned(),
            ("", said) | (said, _) => format!(": {said}"),
        };
        let code = status.and_then(|status| status.get("code")?.as_u64());
        let code = code.and_then(|code| u16::try_from(code).ok());
        let code = code.filter(|code| (400..600).contains(code)).unwrap_or(403);
        let reason = match code {
            400 => "BadRequest",
            403 => "Forbidden",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            _ => "",
        };
        let message = format!("admission webhook {webhook:?} denied the request{said}");
        Self::new(code, reason, message)
    }

    /// An error that the real server passes on unchanged, without a reason.
    pub(crate) fn bare(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// A read asked for a resourceVersion that does not exist yet.
    pub(crate) fn version_too_large(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let details = Details {
            retry_after_seconds: Some(1),
            ..Details::default()
        };
        Self::new(504, "Timeout", message)
            .with_details(details)
            .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
    }

    /// Adds a cause to the details of a failure, which are created if missing.
    #[must_use]
    pub(crate) fn with_cause(
        mut self,
        reason: &'static str,
        message: impl Into<String>,
        field: &str,
    ) -> Self {
        let cause = Cause {
            reason,
            message: message.into(),
            field: field.to_owned(),
        };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// The `metav1.Status` body.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if let Value::Object(map) = &mut status {
            if !self.reason.is_empty() {
                map.insert("reason".to_owned(), self.reason.into());
            }
            if let Some(details) = &self.details {
                map.insert("details".to_owned(), details.json());
            }
            if let Some(token) = &self.resume {
                map.insert("metadata".to_owned(), json!({ "continue": token }));
            }
        }
        status
    }
}

impl Details {
    fn json(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ] {
            if !text.is_empty() {
                map.insert(key.to_owned(), text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(Cause::json).collect();
            map.insert("causes".to_owned(), causes);
        }
        if let Some(seconds) = self.retry_after_seconds {
            map.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        Value::Object(map)
    }
}
