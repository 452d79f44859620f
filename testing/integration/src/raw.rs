//! Requests and answers as bytes, for what a typed client would not send or would not show.

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use hyper::{Method, Request};
use kube::client::{Body, Client};
use kube::core::Status;
use serde_json::Value;

/// A client without types.
pub struct Raw(Client);

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Raw")
    }
}

/// An answer: the code and the body, which is a string where it is not JSON.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    /// (code, reason), by which programs decide; the reason is empty unless the body is a Status.
    pub fn verdict(&self) -> (u16, &str) {
        let is_status = self.text("kind") == "Status";
        (self.code, if is_status { self.text("reason") } else { "" })
    }

    pub fn message(&self) -> &str {
        self.text("message")
    }

    fn text(&self, field: &str) -> &str {
        self.body
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

impl Raw {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, "", Vec::new()).await
    }

    /// The same in a format of the client's choice.
    pub async fn get_as(&self, path: &str, accept: &str) -> Result<Answer> {
        let request = Request::get(path).header("accept", accept);
        self.answer(request.body(Body::from(Vec::new()))?).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::POST, path, "application/json", body.into())
            .await
    }

    pub async fn put(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::PUT, path, "application/json", body.into())
            .await
    }

    pub async fn patch(&self, path: &str, kind: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::PATCH, path, kind, body.into()).await
    }

    pub async fn delete(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
        self.send(Method::DELETE, path, "application/json", body.into())
            .await
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: Vec<u8>) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(path);
        if !kind.is_empty() {
            request = request.header("content-type", kind);
        }
        self.answer(request.body(Body::from(body))?).await
    }

    async fn answer(&self, request: Request<Body>) -> Result<Answer> {
        let asked = format!("{} {}", request.method(), request.uri());
        let describe = || format!("{asked} got no answer");
        let response = self.0.send(request).await.with_context(describe)?;
        let code = response.status().as_u16();
        let bytes = response
            .into_body()
            .collect()
            .await
            .with_context(describe)?
            .to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        Ok(Answer { code, body })
    }
}

/// The refusal of a request that must be refused.
pub fn refused<T>(result: kube::Result<T>) -> Result<Box<Status>> {
    match result {
        Ok(_) => bail!("the request was accepted and should have been refused"),
        Err(kube::Error::Api(status)) => Ok(status),
        Err(error) => Err(error).context("the request failed instead of being refused"),
    }
}
