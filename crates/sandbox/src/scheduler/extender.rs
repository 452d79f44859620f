//! The scheduler's side of the extender protocol: the bodies and calls of kube-scheduler with `nodeCacheCapable: true`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::Request;
use hyper::header::CONTENT_TYPE;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::SandboxError;

/// As in the configuration in docs/extender.md.
const TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub(super) struct Extender {
    /// Only a plain HTTP client is needed, and this one is already available.
    client: Client,
}

/// The request of filter and prioritize. It is serialized directly: with thousands of nodes, building a tree of JSON
/// values would cost more than the request itself.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Question<'a> {
    pod: &'a Pod,
    nodes: Option<()>,
    node_names: &'a [&'a str],
}

/// The answer of filter.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Filtered {
    pub(super) node_names: Option<Vec<String>>,
    pub(super) failed_nodes: BTreeMap<String, String>,
    pub(super) failed_and_unresolvable_nodes: BTreeMap<String, String>,
    pub(super) error: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Scored {
    pub(super) host: String,
    pub(super) score: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Bound {
    error: String,
}

/// The pods to evict from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Victims {
    pub(super) uids: Vec<String>,
    pub(super) violations: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Preempted {
    node_name_to_meta_victims: BTreeMap<String, MetaVictims>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MetaVictims {
    #[serde(rename = "Pods")]
    pods: Vec<MetaPod>,
    #[serde(rename = "NumPDBViolations")]
    violations: i64,
}

#[derive(Debug, Deserialize)]
struct MetaPod {
    #[serde(rename = "UID")]
    uid: String,
}

impl<'a> Question<'a> {
    fn new(pod: &'a Pod, node_names: &'a [&'a str]) -> Self {
        Self {
            pod,
            nodes: None,
            node_names,
        }
    }
}

impl Extender {
    pub(super) fn new(address: SocketAddr) -> Result<Self, SandboxError> {
        let made = || SandboxError::api("make a client of the extender");
        let url = format!("http://{address}");
        let uri = url
            .parse()
            .map_err(|error| made()(kube::Error::HttpError(hyper::http::Error::from(error))))?;
        let mut config = kube::Config::new(uri);
        config.default_retry = false;
        config.read_timeout = Some(TIMEOUT);
        let client = Client::try_from(config).map_err(made())?;
        Ok(Self { client })
    }

    pub(super) async fn filter(&self, pod: &Pod, nodes: &[&str]) -> Result<Filtered, String> {
        self.call("filter", &Question::new(pod, nodes)).await
    }

    pub(super) async fn prioritize(
        &self,
        pod: &Pod,
        nodes: &[&str],
    ) -> Result<Vec<Scored>, String> {
        self.call("prioritize", &Question::new(pod, nodes)).await
    }

    pub(super) async fn bind(&self, pod: &Pod, node: &str) -> Result<(), String> {
        let body = json!({
            "PodName": pod.name_any(),
            "PodNamespace": pod.namespace(),
            "PodUID": pod.uid(),
            "Node": node,
        });
        let bound: Bound = self.call("bind", &body).await?;
        if bound.error.is_empty() {
            Ok(())
        } else {
            Err(bound.error)
        }
    }

    /// Sends the victims that the scheduler would choose on each node; the answer says which to evict instead.
    pub(super) async fn preempt(
        &self,
        pod: &Pod,
        nodes: &BTreeMap<String, Victims>,
    ) -> Result<BTreeMap<String, Victims>, String> {
        let offers: BTreeMap<&String, Value> = nodes
            .iter()
            .map(|(node, victims)| {
                let pods: Vec<Value> = victims.uids.iter().map(|uid| json!({"UID": uid})).collect();
                (
                    node,
                    json!({"Pods": pods, "NumPDBViolations": victims.violations}),
                )
            })
            .collect();
        let body = json!({"Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": offers});
        let answer: Preempted = self.call("preempt", &body).await?;
        let chosen = answer.node_name_to_meta_victims.into_iter();
        Ok(chosen
            .map(|(node, victims)| {
                let uids = victims.pods.into_iter().map(|pod| pod.uid).collect();
                (
                    node,
                    Victims {
                        uids,
                        violations: victims.violations,
                    },
                )
            })
            .collect())
    }

    async fn call<T: DeserializeOwned>(
        &self,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<T, String> {
        let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
        let request = Request::post(format!("/gpushare-scheduler/{verb}"))
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| error.to_string())?;
        let answered = tokio::time::timeout(TIMEOUT, self.client.request(request)).await;
        answered
            .map_err(|_| format!("the extender did not answer {verb} within {TIMEOUT:?}"))?
            .map_err(|error| format!("the extender refused {verb}: {error}"))
    }
}
