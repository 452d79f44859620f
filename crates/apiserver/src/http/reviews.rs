//! Review resources such as TokenReview: a client posts one, gets the answer at once, and nothing is stored. The user
//! of this crate supplies the answers.

use std::fmt;
use std::sync::Arc;

use hyper::{HeaderMap, Method, Response};
use serde_json::Value;

use super::options::content_type;
use super::reply::{Body, failure_reply, json_reply};
use crate::failure::Failure;
use crate::registry::parse;
use crate::request::{RequestInfo, Verb};

type Answering = dyn Fn(&Value) -> Value + Send + Sync;

/// A review resource.
#[derive(Clone)]
pub(crate) struct Review {
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    /// Maps the posted object to its status.
    pub(crate) answer: Arc<Answering>,
}

impl fmt::Debug for Review {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Review({}.{})", self.plural, self.group)
    }
}

impl Review {
    pub(crate) fn is_at(&self, path: &str) -> bool {
        path.strip_prefix("/apis/")
            .and_then(|rest| rest.strip_prefix(self.group))
            .and_then(|rest| rest.strip_prefix("/v1/"))
            == Some(self.plural)
    }

    pub(crate) fn info(&self) -> RequestInfo {
        RequestInfo {
            verb: Verb::Create,
            resource: format!("{}.{}", self.plural, self.group),
            namespace: String::new(),
            name: String::new(),
        }
    }

    pub(crate) fn reply(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Response<Body> {
        if *method != Method::POST {
            return failure_reply(&Failure::method_not_allowed());
        }
        match parse(body, content_type(headers)) {
            Ok(mut review) => {
                let status = (self.answer)(&review);
                if let Value::Object(fields) = &mut review {
                    fields.insert("status".to_owned(), status);
                }
                json_reply(201, review.to_string())
            }
            Err(why) => failure_reply(&Failure::bad_request(why)),
        }
    }
}
