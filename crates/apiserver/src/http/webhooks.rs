//! Calls admission webhooks over HTTPS before a write is done.
//!
//! A dry run makes the object, so a webhook sees it with its defaults. The changes that webhooks make to a new object
//! are kept as patches; the write that follows makes the same object and applies them.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::handler::Request;
use crate::failure::Failure;
use crate::json::Path;
use crate::registry::{Hook, HookKind, HookOperation};
use crate::request::Verb;

/// When this many clients are cached, the cache is cleared.
const CLIENTS: usize = 32;

/// The webhooks' answers to a write that they allow.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    pub(crate) mutations: Vec<json_patch::Patch>,
    pub(crate) warnings: Vec<String>,
}

/// The clients of webhooks, by address and trusted CAs.
#[derive(Default)]
pub(crate) struct Webhooks(Mutex<BTreeMap<(String, String), kube::Client>>);

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Webhooks")
    }
}

impl Webhooks {
    /// Calls every webhook that the write concerns.
    pub(crate) async fn review(&self, request: &Request<'_>) -> Result<Admission, Failure> {
        let mut admission = Admission::default();
        let route = &request.route;
        let operations = match route.verb {
            Verb::Create => &[HookOperation::Create][..],
            Verb::Update | Verb::Patch => &[HookOperation::Update, HookOperation::Create][..],
            _ => return Ok(admission),
        };
        let resource = &route.target.served.resource;
        if route.subresource.is_some() || !request.registry.has_hooks(resource, operations) {
            return Ok(admission);
        }
        let written = request.write_object(true)?;
        let operation = if written.created {
            HookOperation::Create
        } else {
            HookOperation::Update
        };
        let mut object = written.object.value().clone();
        if written.created {
            // These fields are set only when an object is stored.
            for field in ["uid", "creationTimestamp", "resourceVersion"] {
                object.remove(&format!("metadata.{field}"));
            }
            object.remove("status");
        }
        let old = request.registry.get(&route.target).ok();
        for hook in request.registry.hooks(&route.target, operation, &object)? {
            let old = old.as_ref().map(|old| old.value());
            let question = question(request, operation, &object, old);
            let answer = match self.ask(&hook, &question).await {
                Ok(answer) => answer,
                Err(why) if hook.must_answer => {
                    return Err(Failure::internal(format!(
                        "failed calling webhook {:?}: {why}",
                        hook.name
                    )));
                }
                Err(why) => {
                    tracing::warn!(hook = hook.name, why, "a webhook does not answer; going on");
                    continue;
                }
            };
            admission.take(&hook, operation, &answer, &mut object)?;
        }
        Ok(admission)
    }

    async fn ask(&self, hook: &Hook, question: &Value) -> Result<Value, String> {
        let patience = Duration::from_secs(hook.timeout_seconds);
        let answered = tokio::time::timeout(patience, self.post(hook, question)).await;
        let answer = answered.map_err(|_| format!("no answer within {patience:?}"))??;
        let wanted = question.text("request.uid");
        match answer.at("response") {
            Some(response) if response.text("uid") == wanted => Ok(response.clone()),
            _ => Err("the answer is to another question".to_owned()),
        }
    }

    async fn post(&self, hook: &Hook, question: &Value) -> Result<Value, String> {
        let url: hyper::Uri = hook.url.parse().map_err(|error| format!("{error}"))?;
        let client = self.client(&url, &hook.authorities)?;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let request = hyper::Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(CONTENT_TYPE, "application/json")
            .body(kube::client::Body::from(question.to_string().into_bytes()))
            .map_err(|error| error.to_string())?;
        let answer = client.send(request).await.map_err(|error| text(&error))?;
        let status = answer.status();
        let body = answer.into_body().collect_bytes().await;
        let body = body.map_err(|error| text(&error))?;
        if !status.is_success() {
            return Err(format!("it answers {status}"));
        }
        serde_json::from_slice(&body).map_err(|error| format!("the answer is no JSON: {error}"))
    }

    fn client(&self, url: &hyper::Uri, authorities: &str) -> Result<kube::Client, String> {
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let base = format!("{}://{authority}", url.scheme_str().unwrap_or("https"));
        let key = (base, authorities.to_owned());
        if let Some(client) = self.0.lock().get(&key) {
            return Ok(client.clone());
        }
        let uri = key.0.parse().map_err(|error| format!("{error}"))?;
        let mut config = kube::Config::new(uri);
        config.root_cert = Some(certificates(authorities));
        config.default_retry = false;
        let client = kube::Client::try_from(config).map_err(|error| text(&error))?;
        let mut clients = self.0.lock();
        if clients.len() >= CLIENTS {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}

impl Admission {
    fn take(
        &mut self,
        hook: &Hook,
        operation: HookOperation,
        answer: &Value,
        object: &mut Value,
    ) -> Result<(), Failure> {
        let warnings = answer.list("warnings").iter().filter_map(Value::as_str);
        self.warnings.extend(warnings.map(str::to_owned));
        if answer.at("allowed").is_none_or(|allowed| *allowed != true) {
            return Err(Failure::denied(&hook.name, answer.at("status")));
        }
        let may_change = hook.kind == HookKind::Mutating && operation == HookOperation::Create;
        let text = answer.text("patch");
        if text.is_empty() || !may_change {
            return Ok(());
        }
        let broken = |why: String| {
            Failure::internal(format!("webhook {:?} sent no JSON patch: {why}", hook.name))
        };
        let bytes = STANDARD
            .decode(text)
            .map_err(|error| broken(error.to_string()))?;
        let patch: json_patch::Patch =
            serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        json_patch::patch(object, &patch).map_err(|error| broken(error.to_string()))?;
        self.mutations.push(patch);
        Ok(())
    }
}

fn question(
    request: &Request<'_>,
    operation: HookOperation,
    object: &Value,
    old: Option<&Value>,
) -> Value {
    let target = &request.route.target;
    let resource = &target.served.resource;
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let plural =
        json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uuid::Uuid::new_v4().to_string(),
            "kind": kind,
            "resource": plural,
            "requestKind": kind,
            "requestResource": plural,
            "name": object.text("metadata.name"),
            "namespace": target.namespace,
            "operation": operation.name(),
            "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters"]},
            "object": object,
            "oldObject": old,
            "dryRun": request.is_dry_run(),
            "options": null,
        },
    })
}

/// The certificates of a PEM bundle in the form that the TLS library needs.
fn certificates(bundle: &str) -> Vec<Vec<u8>> {
    let parts = bundle.split("-----BEGIN CERTIFICATE-----").skip(1);
    parts
        .filter_map(|part| {
            let (text, _) = part.split_once("-----END CERTIFICATE-----")?;
            let text: String = text.split_whitespace().collect();
            STANDARD.decode(text).ok()
        })
        .collect()
}

/// An error with its causes: the outermost error says only that something failed.
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
