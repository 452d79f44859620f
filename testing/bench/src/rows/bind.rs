//! Binds through the extender, beside bare POSTs of Bindings by the same client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::helper;
use crate::lab::{BIND_MILLIS, Cluster, Lab};
use crate::measure::median;
use crate::objects;
use crate::report::{Limit, Row, Unit};
use crate::stub;

/// How many binds are under way at any moment.
pub(super) const IN_FLIGHT: usize = 8;
const TURNS: usize = 6;
const TURN: Duration = Duration::from_secs(2);

pub(super) fn run(lab: &mut Lab) -> Result<Vec<Row>> {
    let cluster = lab.cluster()?;
    let runtime = helper::runtime()?;
    let (mut through, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        through.push(rate(|over| {
            runtime.block_on(through_extender(cluster, over))
        })?);
        bare.push(rate(|over| runtime.block_on(bare_posts(cluster, over)))?);
    }
    Ok(vec![
        Row::new("binds/s, 8 in flight", median(through)?, Unit::PerSecond)
            .floor(median(bare)?)
            .limit(Limit::RatioAtLeast(0.9))
            .limit(Limit::AtLeast(1000.0))
            .note(format!(
                "the API server answers a bind after {BIND_MILLIS} ms"
            )),
    ])
}

fn rate(work: impl FnOnce(&dyn Fn() -> bool) -> Result<usize>) -> Result<f64> {
    let began = Instant::now();
    let done = work(&|| began.elapsed() >= TURN)?;
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

/// Binds pods, [`IN_FLIGHT`] at a time, until `over` says so. Returns how many.
pub(super) async fn through_extender(cluster: &Cluster, over: impl Fn() -> bool) -> Result<usize> {
    let client = helper::client(&format!("http://{}", cluster.extender))?;
    keep_in_flight(over, async || {
        let number = cluster.next_pending()?;
        let body = json!({
            "PodName": objects::pending_name(number),
            "PodNamespace": objects::NAMESPACE,
            "PodUID": objects::uid("waiting", number),
            "Node": objects::roomy_node(number),
        });
        let answer = post(&client, "/gpushare-scheduler/bind", &body).await?;
        ensure!(answer["Error"] == "", "bind: {}", answer["Error"]);
        Ok(())
    })
    .await
}

/// As [`through_extender`], but directly to the API server, without decisions or bookings.
async fn bare_posts(cluster: &Cluster, over: impl Fn() -> bool) -> Result<usize> {
    let client = helper::client(&cluster.api_url)?;
    let next = AtomicUsize::new(0);
    keep_in_flight(over, async || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let name = objects::pending_name(number);
        let path = format!("/api/v1/namespaces/{}/pods/{name}/binding", stub::BARE);
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": name, "namespace": stub::BARE, "uid": objects::uid("waiting", number),
                "annotations": {"gpushare.io/allocation": "x".repeat(200)},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": objects::roomy_node(number)},
        });
        post(&client, &path, &body).await.map(drop)
    })
    .await
}

async fn keep_in_flight(
    over: impl Fn() -> bool,
    one: impl AsyncFn() -> Result<()>,
) -> Result<usize> {
    let done = AtomicUsize::new(0);
    let workers = (0..IN_FLIGHT).map(async |_| {
        while !over() {
            one().await?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        anyhow::Ok(())
    });
    try_join_all(workers).await?;
    Ok(done.load(Ordering::Relaxed))
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<Value> {
    let request = axum::http::Request::post(path)
        .header("content-type", "application/json")
        .body(Body::from(serde_json::to_vec(body)?))?;
    let response = client
        .send(request)
        .await
        .context("cannot send a request")?;
    ensure!(
        response.status().is_success(),
        "{path}: {}",
        response.status()
    );
    let body = response.into_body().collect_bytes().await?;
    Ok(serde_json::from_slice(&body)?)
}
