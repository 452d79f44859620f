//! Connects to the timekeeper's API: its address, the CAs to trust, and the token to send.
//!
//! The token is the kubeconfig's, however it is obtained. It is sent only over verified TLS or to this machine
//! itself.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use gpushare_core::names;
use gpushare_kube::proxy;
use hyper::Request;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::PostParams;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::forward::Forward;
use crate::connection::Connection;

const SERVICE: &str = "gpushare-timekeeper";
/// The ConfigMap that publishes the timekeeper's CA to every user, and its key.
const AUTHORITY: (&str, &str) = ("gpushare-timekeeper-ca", "ca.crt");
const TOKEN_SECONDS: i64 = 600;

#[derive(Args, Clone, Debug)]
pub(super) struct Reach {
    /// Address of the timekeeper; by default its Service, through kubectl port-forward
    #[arg(long, env = "GPUSHARE_TIMEKEEPER", value_name = "URL")]
    timekeeper: Option<String>,
    /// CA certificates (PEM) to trust when connecting to it; by default those that the cluster publishes
    #[arg(long, env = "GPUSHARE_TIMEKEEPER_CA_FILE", value_name = "FILE")]
    timekeeper_ca: Option<PathBuf>,
    /// The name that its certificate must have, if it differs from the address
    #[arg(long, value_name = "NAME")]
    timekeeper_name: Option<String>,
    /// The namespace in which gpushare runs
    #[arg(long, value_name = "NAMESPACE", default_value = "gpushare-system")]
    timekeeper_namespace: String,
    /// Act as a service account, with a token created for it; for kubeconfigs with a client certificate and no token
    #[arg(long, value_name = "NAMESPACE/NAME")]
    as_service_account: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// A client of the timekeeper with the caller's identity.
pub(super) struct Timekeeper {
    client: Client,
    url: String,
    namespace: String,
    _forward: Option<Forward>,
}

impl Reach {
    pub(super) async fn timekeeper(&self) -> Result<Timekeeper> {
        let client = self.connection.client().await?;
        let user = self.user(&client).await?;
        let (url, name, forward) = self.address()?;
        let mut authority = None;
        if url.starts_with("https://") {
            authority = Some(BASE64_STANDARD.encode(self.authority(&client).await?));
        }
        let cluster = json!({
            "server": url, "tls-server-name": name, "certificate-authority-data": authority,
        });
        let to_the_timekeeper = json!({
            "clusters": [{"name": "t", "cluster": cluster}],
            "users": [{"name": "t", "user": user}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
            "current-context": "t",
        });
        let unusable = "cannot use what the kubeconfig and --timekeeper-ca say";
        let kubeconfig: Kubeconfig = serde_json::from_value(to_the_timekeeper).context(unusable)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = proxy::none_to_loopback(config.context(unusable)?);
        // Send each request only once, because it may have taken effect even if its answer was lost.
        config.default_retry = false;
        Ok(Timekeeper {
            client: Client::try_from(config).context(unusable)?,
            url,
            namespace: client.default_namespace().to_owned(),
            _forward: forward,
        })
    }

    /// The timekeeper's address, the name that its certificate must have, and the port-forward that must stay open.
    fn address(&self) -> Result<(String, Option<String>, Option<Forward>)> {
        let name = self.timekeeper_name.clone();
        let Some(url) = &self.timekeeper else {
            let flags = self.connection.flags();
            let forward = Forward::start(&self.timekeeper_namespace, SERVICE, &flags)?;
            let url = format!("https://127.0.0.1:{}", forward.port);
            let name =
                name.unwrap_or_else(|| format!("{SERVICE}.{}.svc", self.timekeeper_namespace));
            return Ok((url, Some(name), Some(forward)));
        };
        let here = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
        if !url.starts_with("https://") && !here.iter().any(|here| url.starts_with(here)) {
            bail!("--timekeeper {url:?} must be an https:// address: your token is sent there");
        }
        Ok((url.trim_end_matches('/').to_owned(), name, None))
    }

    async fn authority(&self, client: &Client) -> Result<String> {
        if let Some(path) = &self.timekeeper_ca {
            let unreadable = || format!("cannot read {}", path.display());
            return std::fs::read_to_string(path).with_context(unreadable);
        }
        let (name, key) = AUTHORITY;
        let namespace = &self.timekeeper_namespace;
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let remedy = "give --timekeeper-ca with the file of its certificate authority";
        let published = api.get(name).await;
        let published = published
            .with_context(|| format!("cannot read the ConfigMap {namespace}/{name}; {remedy}"))?;
        let authority = published.data.and_then(|mut data| data.remove(key));
        authority
            .with_context(|| format!("the ConfigMap {namespace}/{name} has no {key}; {remedy}"))
    }

    /// The kubeconfig's user reduced to its token, or a service account.
    async fn user(&self, client: &Client) -> Result<AuthInfo> {
        if let Some(account) = &self.as_service_account {
            let token = token_of(client, account).await?;
            return Ok(AuthInfo {
                token: Some(token.into()),
                ..AuthInfo::default()
            });
        }
        let user = self.connection.user()?;
        let user = AuthInfo {
            token: user.token,
            token_file: user.token_file,
            auth_provider: user.auth_provider,
            exec: user.exec,
            ..AuthInfo::default()
        };
        let has_token = user.token.is_some()
            || user.token_file.is_some()
            || user.auth_provider.is_some()
            || user.exec.is_some();
        if !has_token {
            bail!(
                "the kubeconfig has no token to show to the timekeeper, which does not take client certificates: \
                 give --as-service-account NAMESPACE/NAME with an account that may do this"
            );
        }
        Ok(user)
    }
}

async fn token_of(client: &Client, account: &str) -> Result<String> {
    let wrong = || format!("--as-service-account {account:?} is no NAMESPACE/NAME");
    let (namespace, name) = account.split_once('/').with_context(wrong)?;
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(vec![names::TIMEKEEPER_AUDIENCE.to_owned()]),
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let made = api
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .with_context(|| {
            format!(
                "cannot make a token for the service account {account}; check that it exists, and that you may \
                 create serviceaccounts/token there"
            )
        })?;
    let token = made.status.and_then(|status| status.token);
    token.context("the API server made no token")
}

impl Timekeeper {
    /// The namespace of the kubeconfig.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) async fn get(&self, path: &str) -> Result<String> {
        let request = Request::get(path).body(Vec::new());
        self.send(request.context("cannot ask for that name")?)
            .await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<String> {
        let request = Request::post(path)
            .header("Content-Type", "application/json")
            .body(body.to_string().into_bytes());
        self.send(request.context("cannot ask for that name")?)
            .await
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Result<String> {
        let url = &self.url;
        match self.client.request_text(request).await {
            Ok(text) => Ok(text),
            Err(kube::Error::Api(status)) => Err(match (status.code, status.reason.as_str()) {
                // An unknown path is reported as the first reason by our server, and as the second by other servers.
                (404, "NoSuchPath" | "Failed to parse error data") => anyhow!(
                    "the timekeeper at {url} does not know this request; is it older than this program?"
                ),
                (401, _) => anyhow!(
                    "the timekeeper does not accept your token: {} (or give --as-service-account)",
                    status.message
                ),
                _ => anyhow!("the timekeeper refuses: {}", status.message),
            }),
            Err(error) => Err(anyhow::Error::new(error).context(format!(
                "cannot reach the timekeeper at {url}; check --timekeeper, --timekeeper-ca and --timekeeper-name"
            ))),
        }
    }
}
