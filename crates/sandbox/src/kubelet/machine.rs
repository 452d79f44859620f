//! One simulated node: its Node object, its agent or what stands for it, and what its kubelet has on disk.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpushare_core::gpu::env::container_env;
use gpushare_core::{Card, NodeName, gpu};
use gpushare_daemon::Tasks;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_kubelet_api::deviceplugin::KUBELET_SOCKET;
use gpushare_kubelet_api::stand_in::Kubelet;
use gpushare_node::cards::Cards;
use gpushare_node::config::Config;
use gpushare_node::nvml::Driver;
use gpushare_node::offer::Offer;
use gpushare_node::{agent, publish};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use tokio::net::UnixListener;
use tokio::sync::watch;

use crate::error::SandboxError;
use crate::fleet::{Machine, READING, SLOTS};

/// How long the longest path of a socket gets in a sandbox's directory: one of an agent's device plugins.
pub(crate) fn longest_socket(home: &Path) -> usize {
    let socket = home.join("n0/p/gpushare-tencent-core-00000000.sock");
    socket.as_os_str().len()
}

pub(crate) struct Place {
    pub(super) name: String,
    pub(super) address: String,
    cards: Arc<[Card]>,
    /// `None` if no agent runs on the node.
    pub(super) kubelet: Option<Arc<Kubelet>>,
    cdi_dir: PathBuf,
    /// The common prefix of its pods' addresses.
    pods: String,
    addresses: AtomicU32,
}

impl Place {
    pub(super) async fn start(
        machine: &Machine,
        client: &Client,
        offer: &Offer,
        home: &Path,
        tasks: &Tasks,
    ) -> Result<Self, SandboxError> {
        let node = register(machine, client, offer).await?;
        let cards = Cards::Known(Arc::clone(&machine.cards));
        // Short, because the path of a socket has at most 107 bytes.
        let home = home.join(format!("n{}", machine.number));
        let mut place = Self {
            name: machine.name.clone(),
            address: machine.address(),
            cards: Arc::clone(&machine.cards),
            kubelet: None,
            cdi_dir: home.join("cdi"),
            pods: format!("10.{}.{}", 128 + machine.number / 256, machine.number % 256),
            addresses: AtomicU32::new(0),
        };
        if machine.has_agent() {
            place.kubelet = Some(place.start_agent(client, cards, &home, tasks)?);
        } else {
            let nodes = Api::all(client.clone());
            publish::publish_once(&nodes, &node, &cards, offer)
                .await
                .map_err(SandboxError::api(format!(
                    "publish the cards of {}",
                    place.name
                )))?;
        }
        Ok(place)
    }

    fn start_agent(
        &self,
        client: &Client,
        cards: Cards,
        home: &Path,
        tasks: &Tasks,
    ) -> Result<Arc<Kubelet>, SandboxError> {
        let make = |name: &str| {
            let path = home.join(name);
            let made = std::fs::create_dir_all(&path);
            made.map(|()| path.clone())
                .map_err(|source| SandboxError::File { path, source })
        };
        let config = Config {
            node: NodeName::new(&self.name),
            kubeconfig: None,
            device_plugin_dir: make("p")?,
            pod_resources_socket: make("r")?.join("kubelet.sock"),
            cdi_dir: make("cdi")?,
            driver_cdi_dir: make("driver")?,
            cgroup_root: make("cgroup")?,
            // Not used, because the cards are given.
            driver: Driver {
                library: PathBuf::new(),
                rescan: Duration::MAX,
            },
            reading: READING,
            slots: SLOTS,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        };
        let kubelet = start_kubelet(&config, tasks)?;
        let reporting = report(client.clone(), self.name.clone(), Arc::clone(&kubelet));
        let stop = tasks.shutdown().clone();
        tasks.service("a kubelet's report of devices", async move {
            stop.run_until_cancelled(reporting).await;
            Ok::<(), Infallible>(())
        });
        let (keep, cards) = watch::channel(cards);
        let stop = tasks.shutdown().clone();
        // The agent ends when the sender of its cards is dropped.
        tasks.service("the simulated cards", async move {
            stop.cancelled().await;
            drop(keep);
            Ok::<(), Infallible>(())
        });
        agent::start_with(&config, Some(client.clone()), cards, tasks).map_err(|source| {
            SandboxError::Agent {
                node: self.name.clone(),
                source,
            }
        })?;
        Ok(kubelet)
    }

    /// An address for a pod. A node has 250 addresses, as many as it accepts pods.
    pub(super) fn next_address(&self) -> String {
        let last = self.addresses.fetch_add(1, Ordering::Relaxed) % 250 + 2;
        format!("{}.{last}", self.pods)
    }

    /// The environment that the runtime would set in a container. If the node has an agent, it is read from the CDI
    /// specs that the container's devices name.
    pub(super) fn environment(&self, pod: &Pod, uid: &str, container: &str) -> Vec<String> {
        let Some(kubelet) = &self.kubelet else {
            return self.recorded_environment(pod, container);
        };
        let names = kubelet.cdi_names(uid, container);
        names
            .iter()
            .filter_map(|name| cdi_environment(&self.cdi_dir, name))
            .flatten()
            .collect()
    }

    /// The same environment, computed from the allocation record by the rule that agents apply.
    fn recorded_environment(&self, pod: &Pod, container: &str) -> Vec<String> {
        let dialects = gpu::read(READING);
        let slim: Option<slim::Pod> = serde_json::to_value(pod)
            .and_then(serde_json::from_value)
            .ok();
        let facts = slim.map(|pod| PodFacts::new(&pod, &dialects));
        let bound = facts.and_then(|facts| facts.bound(&dialects.classes)?.ok());
        let Some(bound) = bound else {
            return Vec::new();
        };
        let Some(placed) = bound.placement.container(gpu::CLASS, container) else {
            return Vec::new();
        };
        let find = |id: &_| self.cards.iter().find(|card| card.id == *id);
        container_env(&bound.ask, placed, READING.aliyun, find)
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }
}

/// Opens the sockets of the kubelet to which the agent talks.
fn start_kubelet(config: &Config, tasks: &Tasks) -> Result<Arc<Kubelet>, SandboxError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| SandboxError::File { path, source }
    };
    let listen = |socket: &Path| UnixListener::bind(socket).map_err(failed(socket));
    let kubelet = Kubelet::new(&config.device_plugin_dir, &config.cgroup_root)
        .map_err(failed(&config.cgroup_root))?;
    let stop = tasks.shutdown();
    let listener = listen(&config.device_plugin_dir.join(KUBELET_SOCKET))?;
    let registration = Arc::clone(&kubelet).serve_registration(listener, stop.clone());
    tasks.service("a kubelet's registration", registration);
    let listener = listen(&config.pod_resources_socket)?;
    let pod_resources = Arc::clone(&kubelet).serve_pod_resources(listener, stop.clone());
    tasks.service("a kubelet's PodResources", pod_resources);
    Ok(kubelet)
}

fn cdi_environment(directory: &Path, name: &str) -> Option<Vec<String>> {
    let (_, slot) = name.split_once('=')?;
    let entries = std::fs::read_dir(directory).ok()?;
    let mut files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files.find(|path| {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let finished = path.extension().is_some_and(|kind| kind == "json");
        finished && stem.is_some_and(|stem| stem.ends_with(slot))
    })?;
    let slot = gpushare_node::cdi::Slot::decode(&std::fs::read(file).ok()?)?;
    Some(slot.edits.env)
}

/// Creates the Node, and removes its taints, as the node controller does when a kubelet is ready.
async fn register(machine: &Machine, client: &Client, offer: &Offer) -> Result<Node, SandboxError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let what = || SandboxError::api(format!("register node {}", machine.name));
    let node = serde_json::from_value(machine.node(offer))
        .map_err(|error| what()(kube::Error::SerdeError(error)))?;
    nodes
        .create(&PostParams::default(), &node)
        .await
        .map_err(what())?;
    let patch = Patch::Merge(json!({"spec": {"taints": null}}));
    let params = PatchParams::default();
    nodes
        .patch(&machine.name, &params, &patch)
        .await
        .map_err(what())
}

/// Keeps the Node's status in step with what the plugins offer.
async fn report(client: Client, node: String, kubelet: Arc<Kubelet>) {
    let nodes: Api<Node> = Api::all(client);
    let mut changed = kubelet.subscribe();
    let mut told = BTreeMap::new();
    loop {
        changed.borrow_and_update();
        let offered = kubelet.offered();
        if offered != told {
            let list = |pick: fn(&(usize, usize)) -> usize| -> Map<String, Value> {
                let amounts = offered.iter();
                amounts
                    .map(|(resource, amounts)| (resource.clone(), pick(amounts).to_string().into()))
                    .collect()
            };
            let status = json!({"status": {
                "capacity": list(|(all, _)| *all),
                "allocatable": list(|(_, healthy)| *healthy),
            }});
            let params = PatchParams {
                field_manager: Some("kubelet".to_owned()),
                ..PatchParams::default()
            };
            match nodes
                .patch_status(&node, &params, &Patch::Merge(status))
                .await
            {
                Ok(_) => told = offered,
                Err(error) => tracing::warn!(%error, node, "cannot report devices"),
            }
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}
