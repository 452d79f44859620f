//! Requests and answers as bytes, for what a typed client would not send or would not show.

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use hyper::{Method, Request};
use kube::client::{Body, Client};
use kube::core::Status;
use serde_json::{Value, json};

use crate::verdict::Verdict;

/// The header of a body in JSON.
const JSON: Option<(&str, &str)> = Some(("content-type", "application/json"));

/// How much of a request a failing test shows, in bytes.
const SHOWN: usize = 500;

/// A client without types.
pub struct RawClient(Client);

impl std::fmt::Debug for RawClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawClient")
    }
}

/// An answer: the code and the body, which is a string where it is not JSON.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
    asked: String,
}

impl Answer {
    /// (code, reason), by which programs decide; the reason is empty unless the body is a Status.
    pub fn verdict(&self) -> (u16, &str) {
        let is_status = self.text("kind") == "Status";
        (self.code, if is_status { self.text("reason") } else { "" })
    }

    /// Stops the test if the verdict is another one.
    #[track_caller]
    pub fn must_be(&self, verdict: Verdict) -> &Self {
        let Self { asked, body, .. } = self;
        assert_eq!(self.verdict(), verdict, "{asked} got {body}");
        self
    }

    /// Stops the test if the message does not contain this.
    #[track_caller]
    pub fn must_say(&self, part: &str) {
        let message = self.message();
        assert!(message.contains(part), "{} got {message}", self.asked);
    }

    pub fn message(&self) -> &str {
        self.text("message")
    }

    /// A detail of a Status, such as `kind`, or `causes/0/field`. It is empty if the Status does not have it.
    pub fn detail(&self, path: &str) -> &str {
        self.text(&format!("details/{path}"))
    }

    fn text(&self, path: &str) -> &str {
        let text = self.body.pointer(&format!("/{path}"));
        text.and_then(Value::as_str).unwrap_or_default()
    }
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        let mut body = json!(status);
        if let Some(fields) = body.as_object_mut() {
            // The typed form leaves out the kind.
            fields.insert("kind".to_owned(), "Status".into());
        }
        Self {
            code: status.code,
            body,
            asked: "the request".to_owned(),
        }
    }
}

impl RawClient {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, None, Vec::new()).await
    }

    /// The same in a format of the client's choice.
    pub async fn get_as(&self, path: &str, accept: &str) -> Result<Answer> {
        let accept = Some(("accept", accept));
        self.send(Method::GET, path, accept, Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::POST, path, JSON, body.into()).await
    }

    pub async fn put(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::PUT, path, JSON, body.into()).await
    }

    pub async fn patch(&self, path: &str, kind: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        let kind = Some(("content-type", kind));
        self.send(Method::PATCH, path, kind, body.into()).await
    }

    pub async fn delete(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::DELETE, path, JSON, body.into()).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        header: Option<(&str, &str)>,
        body: Vec<u8>,
    ) -> Result<Answer> {
        let mut asked = format!("{method} {path} {}", String::from_utf8_lossy(&body));
        asked.truncate(asked.floor_char_boundary(SHOWN));
        let describe = || format!("{asked} got no answer");
        let mut request = Request::builder().method(method).uri(path);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(body))?;
        let response = self.0.send(request).await.with_context(describe)?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await;
        let body = body.with_context(describe)?.to_bytes();
        let body = serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
        Ok(Answer { code, body, asked })
    }
}

/// The refusal of a typed request. Stops the test if the verdict is another one.
#[track_caller]
pub fn refused<T>(result: kube::Result<T>, verdict: Verdict) -> Result<Answer> {
    match result {
        Ok(_) => bail!("the request was accepted and should have been refused"),
        Err(kube::Error::Api(status)) => {
            let answer = Answer::from(*status);
            answer.must_be(verdict);
            Ok(answer)
        }
        Err(error) => Err(error).context("the request failed instead of being refused"),
    }
}
