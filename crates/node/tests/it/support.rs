//! One node for a test: a kubelet, cards, directories, and an agent that can be stopped and started.

pub(crate) mod kubelet;
pub(crate) mod pods;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use gpushare_core::gpu::{AliyunUnit, Reading};
use gpushare_daemon::Tasks;
use gpushare_fake_nvml::Hardware;
use gpushare_fake_nvml::hardware;
use gpushare_fake_nvml::testing::{Installation, install};
use gpushare_kube::convert::PodFacts;
use gpushare_node::agent::{self, Agent};
use gpushare_node::config::{Config, SlotsPerCard};
use gpushare_node::nvml::Driver;
use gpushare_testkit::{http, until};
use kube::Client;
use serde_json::Value;
use tempfile::TempDir;

use kubelet::Kubelet;

pub(crate) const ALIYUN: &str = "aliyun.com/gpu-mem";
pub(crate) const SLOTS: &str = "gpushare.io/gpu";
pub(crate) const TENCENT: &str = "tencent.com/vcuda-core";
pub(crate) const HAMI: &str = "nvidia.com/gpu";
pub(crate) const NODE: &str = "node-1";
/// Variables of a container.
pub(crate) type Environment = BTreeMap<String, String>;

const GRACE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) kubelet: Kubelet,
    agent: Option<Running>,
    config: Config,
    client: Option<Client>,
    installed: Installation,
    directory: TempDir,
}

struct Running {
    agent: Agent,
    tasks: Tasks,
}

impl World {
    /// A node with cards of these sizes in GiB, its agent registered and in step with an empty node.
    pub(crate) async fn with_cards(gib: &[u64]) -> Self {
        let world = Self::with(gib, |_| {});
        world.registered().await;
        world
    }

    /// A node with one card of 8 GiB, on which the kubelet has admitted pod `a` with so much of it.
    pub(crate) async fn with_placed(gib: u64) -> Self {
        let world = Self::with_cards(&[8]).await;
        world.place("a", gib, 0).await;
        world
    }

    /// As [`Self::with_placed`], and the pod runs.
    pub(crate) async fn with_running(gib: u64) -> Self {
        let world = Self::with_placed(gib).await;
        world.start("a").await;
        world
    }

    /// As [`Self::with_cards`] with other settings, and without waiting for the agent.
    pub(crate) fn with(gib: &[u64], change: impl FnOnce(&mut Config)) -> Self {
        let mut world = Self::without_agent(gib, change);
        world.start_agent_now(vec![]);
        world
    }

    /// A node whose agent talks to this API server.
    pub(crate) async fn with_api(gib: &[u64], client: Client) -> Self {
        Self::with_api_and(gib, client, |_| {}).await
    }

    /// As [`Self::with_api`] with other settings.
    pub(crate) async fn with_api_and(
        gib: &[u64],
        client: Client,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut world = Self::without_agent(gib, change);
        world.client = Some(client);
        world.start_agent_unlisted();
        world.registered().await;
        world
    }

    fn without_agent(gib: &[u64], change: impl FnOnce(&mut Config)) -> Self {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let cards: Vec<(&str, u64)> = gib.iter().map(|gib| ("NVIDIA A10", gib * 1024)).collect();
        let installed = install(&path("driver"), &Hardware::with_cards(&cards)).unwrap();
        let mut config = Config {
            node: NODE.into(),
            kubeconfig: None,
            device_plugin_dir: path("plugins"),
            pod_resources_socket: path("resources").join("kubelet.sock"),
            cdi_dir: path("cdi"),
            driver_cdi_dir: path("driver-cdi"),
            cgroup_root: path("cgroup"),
            driver: Driver {
                library: installed.library.clone(),
                rescan: Duration::from_secs(1),
            },
            reading: Reading {
                aliyun: AliyunUnit::GiB,
                hami: false,
            },
            slots: SlotsPerCard {
                gpushare: 10,
                hami: 4,
            },
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        };
        change(&mut config);
        Self {
            kubelet: Kubelet::start(&config),
            agent: None,
            config,
            client: None,
            installed,
            directory,
        }
    }

    /// A node that serves HAMi's dialect too, its agent registered.
    pub(crate) async fn with_hami(gib: &[u64]) -> Self {
        let world = Self::with(gib, |config| config.reading.hami = true);
        world.registered().await;
        world
    }

    /// The resources that the agent serves to the kubelet.
    pub(crate) fn resources(&self) -> Vec<&'static str> {
        let mut resources = vec![SLOTS, ALIYUN, TENCENT];
        resources.extend(self.config.reading.hami.then_some(HAMI));
        resources
    }

    /// Waits until the kubelet has devices of every resource.
    pub(crate) async fn registered(&self) {
        for resource in self.resources() {
            until(&format!("{resource} to be offered"), async || {
                let offered = self.kubelet.healthy(resource);
                (offered > 0).then_some(()).ok_or(offered)
            })
            .await;
        }
    }

    /// UUIDs of these cards, as containers and records name them.
    pub(crate) fn cards(&self, indexes: &[usize]) -> Vec<String> {
        indexes.iter().map(|index| self.card(*index)).collect()
    }

    pub(crate) fn card(&self, index: usize) -> String {
        let hardware = Hardware::load(&self.installed.hardware).unwrap();
        hardware.cards[index].uuid.clone()
    }

    pub(crate) fn change_hardware(&self, change: impl FnOnce(&mut Hardware)) {
        hardware::update(&self.installed.hardware, change).unwrap();
    }

    /// As the watch does when it sees the pod.
    pub(crate) fn show(&self, pod: PodFacts) {
        self.agent().state.apply(pod);
    }

    /// As the watch does when it begins: it sees these pods, and no others.
    pub(crate) fn list(&self, pods: Vec<PodFacts>) {
        self.agent().state.reset(pods);
    }

    /// A pod with so much memory of a card, as [`pods::simple`].
    pub(crate) fn simple(&self, pod: &str, gib: u64, card: usize) -> PodFacts {
        pods::simple(pod, gib, &self.card(card))
    }

    /// The kubelet admits the pod, which asks for so much in Aliyun's dialect.
    pub(crate) async fn admit(&self, pod: &str, gib: u64) {
        self.kubelet.admit(pod, "main", ALIYUN, gib).await;
    }

    /// The watch shows a pod with so much memory of a card, and the kubelet admits it.
    pub(crate) async fn place(&self, pod: &str, gib: u64, card: usize) {
        self.show(self.simple(pod, gib, card));
        self.admit(pod, gib).await;
    }

    /// As [`Self::place`], and the pod starts.
    pub(crate) async fn run(&self, pod: &str, gib: u64, card: usize) {
        self.place(pod, gib, card).await;
        self.start(pod).await;
    }

    /// Starts the container `main` of a pod.
    pub(crate) async fn start(&self, pod: &str) {
        self.kubelet.start_container(pod, "main").await.unwrap();
    }

    /// Starts a container and returns its environment.
    pub(crate) async fn started(&self, pod: &str, container: &str) -> Environment {
        self.kubelet.start_container(pod, container).await.unwrap();
        self.environment(pod, container).unwrap()
    }

    /// Why the container `main` of a pod does not start, as the user reads it in the container's state.
    pub(crate) async fn refusal(&self, pod: &str) -> String {
        let started = self.kubelet.start_container(pod, "main").await;
        let status = started.unwrap_err();
        assert_eq!(status.code(), tonic::Code::FailedPrecondition, "{status}");
        status.message().to_owned()
    }

    /// The pod's containers have ended, and the watch shows that it is deleted.
    pub(crate) fn delete(&self, pod: &str) {
        self.kubelet.end_processes(pod);
        self.delete_by_force(pod);
    }

    /// The watch shows that the pod is deleted; its containers run on.
    pub(crate) fn delete_by_force(&self, pod: &str) {
        self.agent().state.delete(&pods::uid(pod).as_str().into());
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.agent.as_ref().expect("the agent runs").agent
    }

    pub(crate) fn config(&self) -> Config {
        self.config.clone()
    }

    /// Changes the configuration of the next agent.
    pub(crate) fn reconfigure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
    }

    pub(crate) async fn stop_agent(&mut self) {
        if let Some(running) = self.agent.take() {
            running.stop().await;
        }
    }

    /// A new agent with nothing but the files of the old one; the watch lists these pods to it.
    pub(crate) async fn start_agent(&mut self, listed: Vec<PodFacts>) {
        self.start_agent_now(listed);
        self.registered().await;
    }

    /// The agent is replaced by a new one, as [`Self::start_agent`] starts it.
    pub(crate) async fn restart_agent(&mut self, listed: Vec<PodFacts>) {
        self.stop_agent().await;
        self.start_agent(listed).await;
    }

    fn start_agent_now(&mut self, listed: Vec<PodFacts>) {
        self.start_agent_unlisted();
        self.list(listed);
    }

    /// A new agent to which the watch has shown nothing yet.
    pub(crate) fn start_agent_unlisted(&mut self) {
        assert!(self.agent.is_none(), "one agent at a time");
        self.kubelet.forget_registrations();
        self.agent = Some(Running::start(&self.config, self.client.clone()));
    }

    /// What a container gets: the environment of the CDI device that the kubelet has for it.
    pub(crate) fn environment(&self, pod: &str, container: &str) -> Result<Environment, String> {
        let edits = self.edits(pod, container)?;
        let env = edits["env"].as_array().unwrap().iter();
        let pairs = env.filter_map(|entry| entry.as_str()?.split_once('='));
        Ok(pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect())
    }

    /// All that the CDI device of a container changes in it.
    pub(crate) fn edits(&self, pod: &str, container: &str) -> Result<Value, String> {
        let name = self.kubelet.cdi_name(pod, container);
        let (kind, device) = name.split_once('=').ok_or("not a CDI name")?;
        for file in self.cdi_files() {
            let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
            let spec: Value = serde_json::from_str(&text).unwrap();
            let found = &spec["devices"][0];
            if spec["kind"] == kind && found["name"] == device {
                return Ok(found["containerEdits"].clone());
            }
        }
        Err(format!("unresolvable CDI devices {name}"))
    }

    /// The spec files as a runtime sees them.
    pub(crate) fn cdi_files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.config.cdi_dir).unwrap();
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .collect();
        files.sort();
        files
    }

    pub(crate) fn cdi_dir(&self) -> &std::path::Path {
        &self.config.cdi_dir
    }

    /// A page of the administration routes: status and body.
    pub(crate) async fn page(&self, path: &str) -> (u16, String) {
        let address = self.agent().address;
        let answer = http::get(address, path).await.unwrap();
        (answer.status, answer.text())
    }

    pub(crate) async fn end(mut self) {
        self.stop_agent().await;
        drop(self.directory);
    }
}

/// Asserts that variables, written as `NAME=value` with spaces between them, are among those of a container.
pub(crate) fn expect(environment: &Environment, variables: &str) {
    for variable in variables.split_whitespace() {
        let (name, value) = variable.split_once('=').unwrap();
        let found = environment.get(name).map(String::as_str);
        assert_eq!(found, Some(value), "{name} in {environment:?}");
    }
}

impl Running {
    fn start(config: &Config, client: Option<Client>) -> Self {
        let tasks = Tasks::new();
        let agent = agent::start(config, client, &tasks).unwrap();
        Self { agent, tasks }
    }

    async fn stop(self) {
        self.tasks.shutdown().cancel();
        self.tasks.clone().finished(GRACE).await.unwrap();
    }
}

/// A test that fails must not wait for an agent that nobody stops.
impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.shutdown().cancel();
    }
}
