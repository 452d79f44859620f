//! An extender in this process that follows the test's API server.

use anyhow::{Context, Result, ensure};
use axum::body::Body;
use axum::http::Request;
use gpushare_daemon::Tasks;
use gpushare_extender::Extender;
use gpushare_extender::config::{Config, Offer};
use http_body_util::BodyExt;
use integration::objects::{node_with_cards, pod};
use integration::{Scope, until};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tower::ServiceExt;

/// An extender and the node that its tests use. It ends when dropped, like a killed process: no other part is notified.
pub(crate) struct Running {
    pub(crate) node: String,
    extender: Extender,
    tasks: Tasks,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.shutdown().cancel();
    }
}

/// Creates a pod that asks for memory on one card.
pub(crate) async fn pod_of(test: &Scope, name: &str, gib: u64) -> Result<Pod> {
    let pod = pod(name).limit("aliyun.com/gpu-mem", &gib.to_string());
    test.create_pod(pod).await
}

impl Running {
    /// Creates a node with cards of these sizes in GiB, and starts an extender that knows it.
    pub(crate) async fn with_cards(test: &Scope, gib: &[u64]) -> Result<Self> {
        let name = test.unique("node");
        let mib: Vec<_> = gib.iter().map(|size| size * 1024).collect();
        test.create_node(node_with_cards(&name, &mib)).await?;
        Self::start(test, name).await
    }

    /// Starts an extender and waits until it knows the node.
    pub(crate) async fn start(test: &Scope, node: String) -> Result<Self> {
        let config = Config {
            offer: Offer::All,
            // The extender must leave pods of other tests alone.
            wake: false,
            ..Config::alone()
        };
        let tasks = Tasks::new();
        let extender = Extender::new(config, test.client(), tasks.clone());
        extender.follow(&tasks);
        let running = Self {
            node,
            extender,
            tasks,
        };
        until("the extender knows the node", async || {
            Ok(running.inspect().await?.0 == 200)
        })
        .await?;
        Ok(running)
    }

    async fn send(&self, request: Request<Body>) -> Result<(u16, Value)> {
        let response = self.extender.router().oneshot(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&body)?))
    }

    async fn inspect(&self) -> Result<(u16, Value)> {
        let path = format!("/gpushare-scheduler/inspect/{}", self.node);
        self.send(Request::get(path).body(Body::empty())?).await
    }

    async fn post(&self, verb: &str, body: &Value) -> Result<(u16, Value)> {
        let path = format!("/gpushare-scheduler/{verb}");
        let body = Body::from(body.to_string());
        self.send(Request::post(path).body(body)?).await
    }

    /// Binds as kube-scheduler asks for it. Returns the error, which is empty on success.
    pub(crate) async fn bind(&self, pod: &Pod, node: &str) -> Result<String> {
        let meta = &pod.metadata;
        let args = json!({
            "PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node,
        });
        let (_, answer) = self.post("bind", &args).await?;
        Ok(answer["Error"].as_str().unwrap_or_default().to_owned())
    }

    /// Creates a pod and binds it, which must succeed.
    pub(crate) async fn bind_new(&self, test: &Scope, name: &str, gib: u64) -> Result<()> {
        let created = pod_of(test, name, gib).await?;
        assert_eq!(self.bind(&created, &self.node).await?, "");
        Ok(())
    }

    /// The reason why filter refuses the node; `None` if the node passes.
    pub(crate) async fn refusal(&self, pod: &Pod) -> Result<Option<String>> {
        let args = json!({"Pod": pod, "NodeNames": [self.node]});
        let (status, answer) = self.post("filter", &args).await?;
        ensure!(status == 200, "{answer}");
        let reason = &answer["FailedAndUnresolvableNodes"][&self.node];
        Ok(reason.as_str().map(str::to_owned))
    }

    /// GiB booked on each card of the node.
    pub(crate) async fn booked(&self) -> Result<Vec<u64>> {
        let (status, answer) = self.inspect().await?;
        ensure!(status == 200, "{answer}");
        let cards = answer["nodes"][0]["devs"].as_array().context("no cards")?;
        let used = cards.iter().filter_map(|card| card["usedGPU"].as_u64());
        Ok(used.collect())
    }

    pub(crate) async fn until_booked(&self, expected: &[u64]) -> Result<()> {
        until("the books agree", async || {
            Ok(self.booked().await? == expected)
        })
        .await
    }
}
