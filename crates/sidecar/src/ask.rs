//! One request to the timekeeper: the standing of our own pod, with our own token.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::{Request, StatusCode, header};
use gpushare_daemon::tls;
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use thiserror::Error;

use super::config::Config;
use super::report::Answer;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Far larger than any answer.
const LARGEST_ANSWER: usize = 64 * 1024;
/// How much of a refusal is logged.
const SAID: usize = 300;

#[derive(Debug, Error)]
pub enum SetupError {
    #[error("--timekeeper {0:?} is no address: {1}")]
    Address(String, String),
    #[error("--timekeeper-ca holds no usable certificate: {0}")]
    Authorities(String),
    #[error("cannot set up the client for the timekeeper: {0}")]
    Client(#[from] kube::Error),
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum Silence {
    #[error("cannot read the token {}: {source}", path.display())]
    Token {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the question cannot be written: {0}")]
    Question(#[from] axum::http::Error),
    #[error("cannot reach the timekeeper: {0}")]
    Unreachable(#[from] kube::Error),
    #[error("the timekeeper does not answer within {TIMEOUT:?}")]
    TooLate,
    #[error("the timekeeper refuses with {status}: {said}")]
    Refused { status: StatusCode, said: String },
    #[error("the timekeeper's answer cannot be read: {0}")]
    Unreadable(String),
}

pub(super) struct Timekeeper {
    client: Client,
    path: String,
    token_file: PathBuf,
}

impl Timekeeper {
    pub(super) fn new(config: &Config) -> Result<Self, SetupError> {
        let url = config
            .timekeeper
            .parse()
            .map_err(|error| SetupError::Address(config.timekeeper.clone(), format!("{error}")))?;
        let mut client = kube::Config::new(url);
        let authorities = tls::authorities(config.authorities.as_bytes());
        client.root_cert = Some(authorities.map_err(SetupError::Authorities)?);
        // The next regular request comes soon enough.
        client.default_retry = false;
        Ok(Self {
            client: Client::try_from(client)?,
            path: format!("/v1/namespaces/{}/pods/{}", config.namespace, config.pod),
            token_file: config.token_file.clone(),
        })
    }

    pub(super) async fn ask(&self) -> Result<Answer, Silence> {
        match tokio::time::timeout(TIMEOUT, self.ask_patiently()).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(Silence::TooLate),
        }
    }

    async fn ask_patiently(&self) -> Result<Answer, Silence> {
        // Read each time, because the kubelet renews it.
        let token = tokio::fs::read_to_string(&self.token_file).await;
        let token = token.map_err(|source| Silence::Token {
            path: self.token_file.clone(),
            source,
        })?;
        let question = Request::get(&self.path)
            .header(header::ACCEPT, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {}", token.trim()))
            .body(Body::empty())?;
        let response = self.client.send(question).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect();
        let body = body
            .await
            .map_err(|error| Silence::Unreadable(error.to_string()))?
            .to_bytes();
        if status != StatusCode::OK {
            let said = String::from_utf8_lossy(&body).chars().take(SAID).collect();
            return Err(Silence::Refused { status, said });
        }
        serde_json::from_slice(&body).map_err(|error| Silence::Unreadable(error.to_string()))
    }
}
