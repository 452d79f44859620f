//! An extender in this process that follows the test's API server.

use anyhow::{Context, Result, ensure};
use axum::body::Body;
use axum::http::Request;
use gpushare_daemon::Tasks;
use gpushare_extender::Extender;
use gpushare_extender::config::{Config, Offer};
use http_body_util::BodyExt;

use integration::{DEADLINE, Scope, wait_for};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tower::ServiceExt;

/// Ends when dropped, as a killed process does: no other part is told.
pub(crate) struct Running {
    extender: Extender,
    tasks: Tasks,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.shutdown().cancel();
    }
}

impl Running {
    /// Starts an extender and waits until it knows `node`.
    pub(crate) async fn start(test: &Scope, node: &str) -> Result<Self> {
        let config = Config {
            offer: Offer::All,
            // The extender must leave pods of other tests alone.
            wake: false,
            ..Config::alone()
        };
        let tasks = Tasks::new();
        let extender = Extender::new(config, test.client(), tasks.clone());
        extender.follow(&tasks);
        let running = Self { extender, tasks };
        wait_for("the extender knows the node", DEADLINE, async || {
            let (status, _) = running.get(&format!("inspect/{node}")).await?;
            Ok((status == 200).then_some(()))
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

    async fn get(&self, path: &str) -> Result<(u16, Value)> {
        let path = format!("/gpushare-scheduler/{path}");
        self.send(Request::get(path).body(Body::empty())?).await
    }

    async fn post(&self, verb: &str, body: &Value) -> Result<(u16, Value)> {
        let path = format!("/gpushare-scheduler/{verb}");
        self.send(Request::post(path).body(Body::from(body.to_string()))?)
            .await
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

    /// The reason why filter refuses the node; `None` if the node passes.
    pub(crate) async fn refusal(&self, pod: &Pod, node: &str) -> Result<Option<String>> {
        let args = json!({"Pod": pod, "NodeNames": [node]});
        let (status, answer) = self.post("filter", &args).await?;
        ensure!(status == 200, "{answer}");
        let reason = &answer["FailedAndUnresolvableNodes"][node];
        Ok(reason.as_str().map(str::to_owned))
    }

    /// GiB booked on each card of the node.
    pub(crate) async fn booked(&self, node: &str) -> Result<Vec<u64>> {
        let (status, answer) = self.get(&format!("inspect/{node}")).await?;
        ensure!(status == 200, "{answer}");
        let cards = answer["nodes"][0]["devs"].as_array().context("no cards")?;
        Ok(cards
            .iter()
            .filter_map(|card| card["usedGPU"].as_u64())
            .collect())
    }

    pub(crate) async fn until_booked(&self, node: &str, expected: &[u64]) -> Result<()> {
        wait_for("the books agree", DEADLINE, async || {
            Ok((self.booked(node).await? == expected).then_some(()))
        })
        .await
    }
}
