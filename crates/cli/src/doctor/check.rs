//! One finding, and reading single objects from the API server.

use kube::Client;
use kube::api::Request;
use serde::Serialize;
use serde_json::Value;

use crate::connection::said;

/// What a check is called where it is printed.
pub(super) type Name = &'static str;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) name: Name,
    pub(super) status: Status,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Warn,
    Fail,
}

impl Status {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

pub(super) fn ok(name: Name, message: impl Into<String>) -> Check {
    Check {
        name,
        status: Status::Ok,
        message: message.into(),
        fix: None,
    }
}

pub(super) fn warn(name: Name, message: impl Into<String>, fix: impl Into<String>) -> Check {
    Check {
        name,
        status: Status::Warn,
        message: message.into(),
        fix: Some(fix.into()),
    }
}

pub(super) fn fail(name: Name, message: impl Into<String>, fix: impl Into<String>) -> Check {
    Check {
        status: Status::Fail,
        ..warn(name, message, fix)
    }
}

/// The result of reading one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lookup {
    Found(Value),
    /// The object, or its whole kind, does not exist.
    Missing,
    /// The read failed, for this reason.
    Unknown(String),
}

pub(super) async fn get(client: &Client, path: &str) -> Lookup {
    let request = Request::new(path).list(&kube::api::ListParams::default());
    let answer = match request {
        Ok(request) => client.request::<Value>(request).await,
        Err(error) => return Lookup::Unknown(error.to_string()),
    };
    match answer {
        Ok(object) => Lookup::Found(object),
        Err(kube::Error::Api(status)) if status.code == 404 => Lookup::Missing,
        Err(error) => Lookup::Unknown(said(&error)),
    }
}

/// The finding for something that could not be read.
pub(super) fn unknown(name: Name, what: &str, error: &str) -> Check {
    warn(
        name,
        format!("{what} cannot be read: {error}"),
        "ask with a user that may read it",
    )
}
