//! Pods per second through a real kube-scheduler, with and without our extender.
//!
//! The nodes are objects without machines, and nothing runs the pods. Before each turn the scheduler is stopped while
//! the pods are created, so that only its own pace is measured: from a tenth of the pods bound until all are.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use futures::{StreamExt, TryStreamExt};
use gpushare_kube::slim;
use gpushare_rig::{Binaries, Options, Rig, host};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Expression;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::measure::median;
use crate::objects;
use crate::process::{Extender, program};
use crate::report::{Limit, PROFILE, Row, Unit};

const TURNS: usize = 3;
const PODS: usize = 1_000;
/// Concurrent requests when objects are created or deleted.
const AT_ONCE: usize = 32;
const PATIENCE: Duration = Duration::from_mins(2);
const CONFIGURATION: &str = "/run/rig/kube-scheduler.yaml";
const LISTEN: &str = "127.0.0.1:12345";

/// With and without extender: all nodes are considered, as `docs/extender.md` recommends.
const COMMON: &str = "percentageOfNodesToScore: 100\n";
const EXTENDER: &str = "
extenders:
- urlPrefix: http://127.0.0.1:12345/gpushare-scheduler
  filterVerb: filter
  prioritizeVerb: prioritize
  bindVerb: bind
  weight: 200
  httpTimeout: 15s
  nodeCacheCapable: true
  managedResources:
  - {name: gpushare.io/gpu, ignoredByScheduler: false}
  - {name: gpushare.io/gpu-mem, ignoredByScheduler: false}
  - {name: aliyun.com/gpu-mem, ignoredByScheduler: false}
";

pub(super) fn run(_lab: &mut Lab) -> Result<Vec<Row>> {
    let scheduler = Scheduler::start()?;
    let mut rows = Vec::new();
    let mut nodes = 0;
    for (name, count) in [
        ("end to end, 1,000 nodes", 1_000),
        ("end to end, 5,000 nodes", 5_000),
    ] {
        eprintln!("      making {} nodes", count - nodes);
        scheduler.create_nodes(nodes..count)?;
        nodes = count;
        let (mut ours, mut none) = (Vec::new(), Vec::new());
        for turn in 0..TURNS {
            for with_ours in [turn % 2 == 0, turn % 2 == 1] {
                let rate = scheduler.turn(with_ours)?;
                let who = if with_ours {
                    "our extender"
                } else {
                    "no extender"
                };
                eprintln!("      {count} nodes, {who}: {rate:.0} pods/s");
                if with_ours { &mut ours } else { &mut none }.push(rate);
            }
        }
        rows.push(
            Row::new(name, median(ours)?, Unit::PerSecond)
                .floor(median(none)?)
                .limit(Limit::RatioAtLeast(0.9))
                .excuse(PROFILE),
        );
    }
    scheduler.rig.stop()?;
    Ok(rows)
}

/// A cluster whose scheduler can be started with and without our extender.
struct Scheduler {
    rig: Rig,
    kubeconfig: PathBuf,
    configuration: String,
}

impl Scheduler {
    fn start() -> Result<Self> {
        host::check()?;
        ensure!(
            Binaries::in_cache()?,
            "Kubernetes is not built yet: run `cargo xtask cluster up` or `cargo xtask e2e` once"
        );
        let rig = Rig::start(Options {
            scheduler_extra: COMMON.to_owned(),
            // Nodes must be ready from the start, because nothing here would remove the taint.
            apiserver_extra: vec!["--disable-admission-plugins=TaintNodesByCondition".to_owned()],
            ..Options::default()
        })?;
        // No kubelet sends heartbeats for the nodes, so no controller may judge them by heartbeats.
        for component in ["kube-controller-manager", "kubelet", "kube-scheduler"] {
            rig.stop_component(component)?;
        }
        let configuration = rig.path(CONFIGURATION);
        let configuration = fs::read_to_string(&configuration)
            .with_context(|| format!("cannot read {}", configuration.display()))?;
        let kubeconfig = rig.kubeconfig();
        Ok(Self {
            rig,
            kubeconfig,
            configuration,
        })
    }

    async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Client::try_from(config)?)
    }

    fn create_nodes(&self, numbers: std::ops::Range<usize>) -> Result<()> {
        self.rig.run(async || {
            let api: Api<Node> = Api::all(self.client().await?);
            let nodes = futures::stream::iter(numbers).map(|number| {
                let api = api.clone();
                async move {
                    let mut node = objects::node(number);
                    if let Some(metadata) = node["metadata"].as_object_mut() {
                        for field in [
                            "uid",
                            "resourceVersion",
                            "creationTimestamp",
                            "managedFields",
                        ] {
                            metadata.remove(field);
                        }
                    }
                    let node: Node = serde_json::from_value(node)?;
                    api.create(&PostParams::default(), &node).await?;
                    anyhow::Ok(())
                }
            });
            nodes.buffer_unordered(AT_ONCE).try_collect::<()>().await
        })
    }

    /// Binds [`PODS`] pods and returns how many per second.
    fn turn(&self, with_ours: bool) -> Result<f64> {
        self.create_pods()?;
        let extender = if with_ours { EXTENDER } else { "" };
        fs::write(
            self.rig.path(CONFIGURATION),
            format!("{}{extender}", self.configuration),
        )?;
        let extender = with_ours.then(|| self.start_extender()).transpose()?;
        let times = thread::scope(|scope| {
            let watching = scope.spawn(|| self.rig.run(async || self.times_of_binds().await));
            self.rig.start_component("kube-scheduler")?;
            watching.join().map_err(|_| anyhow!("the watch panicked"))?
        })?;
        self.rig.stop_component("kube-scheduler")?;
        drop(extender);
        self.delete_pods()?;
        let (first, last) = (PODS / 10, PODS - 1);
        let (from, to) = times
            .get(first)
            .zip(times.last())
            .context("no pod was bound")?;
        Ok((last - first) as f64 / to.duration_since(*from).as_secs_f64())
    }

    fn start_extender(&self) -> Result<Extender> {
        let command = self.rig.net(program("gpushare-control")?);
        let directory = tempfile::tempdir()?;
        let mut extender = Extender::run(command, &self.kubeconfig, LISTEN, directory)?;
        extender.binds_open()?;
        Ok(extender)
    }

    fn create_pods(&self) -> Result<()> {
        self.rig.run(async || {
            let api = self.pods().await?;
            let pods = futures::stream::iter(0..PODS).map(|number| {
                let api = api.clone();
                async move {
                    let pod: Pod = serde_json::from_value(pod(number))?;
                    api.create(&PostParams::default(), &pod).await?;
                    anyhow::Ok(())
                }
            });
            pods.buffer_unordered(AT_ONCE).try_collect::<()>().await
        })
    }

    async fn pods(&self) -> Result<Api<Pod>> {
        Ok(Api::default_namespaced(self.client().await?))
    }

    /// When the watch showed each pod bound.
    async fn times_of_binds(&self) -> Result<Vec<Instant>> {
        let api: Api<slim::Pod> = Api::default_namespaced(self.client().await?);
        let watching = async {
            let mut times = Vec::new();
            let mut watch = api.watch(&WatchParams::default(), "0").await?.boxed();
            while times.len() < PODS {
                let event = watch.try_next().await?.context("the watch ended")?;
                // The status is not written, so the bind is the only change.
                if let WatchEvent::Modified(pod) = event
                    && pod.spec.node_name.is_some()
                {
                    times.push(Instant::now());
                }
            }
            anyhow::Ok(times)
        };
        let watched = tokio::time::timeout(PATIENCE, watching).await;
        watched.with_context(|| format!("{PODS} pods were not bound within {PATIENCE:?}"))?
    }

    fn delete_pods(&self) -> Result<()> {
        self.rig.run(async || {
            let api = self.pods().await?;
            let all = ListParams::default().labels_from(&Expression::Exists("bench".into()).into());
            let now = DeleteParams::default().grace_period(0);
            api.delete_collection(&now, &all).await?;
            let begun = Instant::now();
            while !api.list(&all).await?.items.is_empty() {
                ensure!(begun.elapsed() < PATIENCE, "the pods do not go away");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        })
    }
}

fn pod(number: usize) -> Value {
    let resources = json!({"cpu": "100m", "memory": "64Mi", "aliyun.com/gpu-mem": "2"});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("bench-{number:05}"), "labels": {"bench": "pod"}},
        "spec": {"containers": [{
            "name": "c", "image": "lab/busybox:1", "resources": {"limits": resources, "requests": resources},
        }]},
    })
}
