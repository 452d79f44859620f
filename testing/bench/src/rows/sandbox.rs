//! The sandbox with 1,000 nodes: how many pods a second go from creation to Running through all of its parts, how much
//! memory it holds with 10,000 of them, and how soon a browser then shows its dashboard.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use gpushare_browser::{Browser, Chromium};
use gpushare_kube::slim;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;

use super::dashboard::{FirstSight, LOOK};
use crate::lab::Lab;
use crate::process::{Process, program};
use crate::report::{Row, Unit};

const NODES: &str = "1000";
const PODS: usize = 10_000;
/// Concurrent creations.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_mins(10);

pub(super) fn run(_lab: &mut Lab) -> Result<Vec<Row>> {
    let mut sandbox = Process::start(
        Command::new(program("gpushare-sandbox")?)
            .args(["--no-story", "--nodes", NODES])
            .stdout(Stdio::piped()),
    )?;
    let mut lines = BufReader::new(sandbox.output()?).lines();
    // The values must be read in the order in which the sandbox prints them.
    let mut told = |before: &str| {
        let rest = |line: String| Some(line.split_once(before)?.1.trim().to_owned());
        let found = lines.find_map(|line| rest(line.ok()?));
        found.context("the sandbox ended before it was ready")
    };
    let dashboard = told("dashboard  ")?;
    let kubeconfig = told("KUBECONFIG=")?;
    let runtime = tokio::runtime::Runtime::new()?;
    let took = runtime.block_on(fill(&kubeconfig))?;
    let rate = PODS as f64 / took.as_secs_f64();
    let memory = sandbox.resident_megabytes()?;
    let browser = Browser::start(&Chromium::find()?)?;
    let sight = FirstSight::of(&browser.open(LOOK)?, &dashboard, "1,000 nodes")?;
    drop(browser);
    // A regular end also removes the sandbox's files.
    sandbox.end()?;
    Ok(vec![
        Row::new("sandbox: pods/s, 1,000 nodes", rate, Unit::PerSecond),
        Row::new(
            "sandbox: memory, 1,000 nodes, 10,000 pods",
            memory,
            Unit::Megabytes,
        ),
        Row::new(
            "sandbox: first dashboard paint",
            sight.painted,
            Unit::Microseconds,
        ),
        Row::new(
            "sandbox: the dashboard shows the cluster",
            sight.seen,
            Unit::Microseconds,
        ),
    ])
}

async fn fill(kubeconfig: &str) -> Result<Duration> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let client = Client::try_from(config)?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let began = Instant::now();
    stream::iter(0..PODS)
        .map(|number| create(&pods, number))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let slim: Api<slim::Pod> = Api::namespaced(client, "default");
    let pending = ListParams::default().fields("status.phase=Pending");
    loop {
        let left = slim.list(&pending).await?.items.len();
        if left == 0 {
            return Ok(began.elapsed());
        }
        ensure!(began.elapsed() < PATIENCE, "{left} pods still do not run");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn create(pods: &Api<Pod>, number: usize) -> Result<()> {
    let limits = json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "2048"});
    let pod = serde_json::from_value(json!({
        "metadata": {"name": format!("p{number}")},
        "spec": {"containers": [{"name": "app", "image": "none", "resources": {"limits": limits}}]},
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}
