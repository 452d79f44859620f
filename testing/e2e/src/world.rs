//! One real cluster with our parts in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Result, ensure};
use gpushare_core::CardId;
use gpushare_core::gpu;
use gpushare_fake_nvml::hardware::Hardware;
use gpushare_fake_nvml::testing::{self, Installation};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_rig::{Options, Rig};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{self, Answer};
use crate::kubectl::Kubectl;
use crate::manifest;
use crate::process::Process;
pub use crate::process::binary;
use crate::setup::Setup;
use crate::wait;

pub const EXTENDER: &str = "127.0.0.1:12345";
pub const NODE: &str = "node";

#[derive(Debug)]
pub struct World {
    // Dropped in this order: our processes before the cluster that they run in.
    pub extender: Option<Process>,
    pub agent: Option<Process>,
    rig: Arc<Rig>,
    /// Applies to the parts that are started from now on.
    pub setup: Setup,
    /// The account of the extender that is started next.
    pub(crate) extenders_kubeconfig: &'static str,
    installed: Installation,
    directory: TempDir,
    /// Our processes end with the cluster, not when their values are dropped: for a world in a static.
    lasting: bool,
}

impl World {
    /// A cluster of one node with these cards (memory in MiB), ready to take pods.
    pub fn start(cards: &[u64]) -> Self {
        Self::with(Setup::cards(cards))
    }

    /// A cluster of one node, ready to take pods.
    pub fn with(setup: Setup) -> Self {
        Self::prepare(setup, false).expect("the world starts")
    }

    /// A world that several tests share until the test program ends. Its processes cannot be killed one by one.
    pub fn lasting(setup: Setup) -> Self {
        Self::prepare(setup, true).expect("the world starts")
    }

    fn prepare(setup: Setup, lasting: bool) -> Result<Self> {
        let options = Options {
            scheduler_extra: setup.scheduler(),
            ..Options::default()
        };
        let rig = Arc::new(Rig::start(options)?);
        let directory = tempfile::tempdir()?;
        let installed = testing::install(directory.path(), &setup.hardware)?;
        install(&rig, &["rbac.yaml", "admission.yaml"]);
        let mut world = Self {
            extender: None,
            agent: None,
            rig,
            setup,
            extenders_kubeconfig: "gpushare-extender",
            installed,
            directory,
            lasting,
        };
        let accounts = ["gpushare-extender", "gpushare-node"];
        kubeconfigs(&world.rig, world.directory(), &accounts)?;
        world.start_agent();
        world.start_extender();
        world.wait_ready();
        Ok(world)
    }

    pub fn rig(&self) -> &Arc<Rig> {
        &self.rig
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The fake driver that the agent loads.
    pub fn library(&self) -> &Path {
        &self.installed.library
    }

    pub fn hardware_file(&self) -> &Path {
        &self.installed.hardware
    }

    /// The cards, ordered by index.
    pub fn cards(&self) -> Vec<CardId> {
        let cards = self.setup.hardware.cards.iter();
        cards.map(|card| CardId::new(&card.uuid)).collect()
    }

    pub fn card_sizes(&self) -> BTreeMap<CardId, u64> {
        let hardware = Hardware::load(&self.installed.hardware).expect("the hardware is readable");
        hardware
            .cards
            .iter()
            .map(|card| (CardId::new(&card.uuid), card.memory_mib))
            .collect()
    }

    // --- our parts

    pub fn start_extender(&mut self) {
        let mut command = self.extender_command(EXTENDER, self.extenders_kubeconfig);
        command
            .arg("--leader-elect=false")
            .args(self.setup.hami.then_some("--hami"))
            .args((!self.setup.wake).then_some("--wake=false"));
        let extender = launch(&self.rig, "extender", command, "gpushare-extender");
        self.extender = Some(extender);
    }

    fn extender_command(&self, listen: &str, account: &str) -> Command {
        let mut command = self.enter(&binary("gpushare-control"));
        command
            .args(["extender", "--listen", listen, "--kubeconfig"])
            .arg(self.kubeconfig(account));
        command
    }

    pub fn kill_extender(&mut self) {
        self.extender.as_mut().expect("it runs").kill();
    }

    pub fn restart_extender(&mut self) {
        self.kill_extender();
        self.start_extender();
        self.wait_ready();
    }

    /// An extender that runs beside others.
    pub fn start_replica(&self, name: &'static str, listen: &str) -> Process {
        let mut command = self.extender_command(listen, "gpushare-extender");
        command.args(["--replica-name", name]);
        let log = format!("gpushare-extender-{name}");
        launch(&self.rig, name, command, &log)
    }

    pub fn start_agent(&mut self) {
        let mut command = self.enter(&binary("gpushare-node"));
        command
            .env("GPUSHARE_FAKE_HARDWARE", &self.installed.hardware)
            .args(["--node-name", NODE, "--nvml-library"])
            .arg(&self.installed.library)
            .arg("--kubeconfig")
            .arg(self.kubeconfig("gpushare-node"))
            .args(self.setup.hami.then_some("--hami"));
        self.agent = Some(launch(&self.rig, "agent", command, "gpushare-node"));
    }

    pub fn kill_agent(&mut self) {
        self.agent.as_mut().expect("it runs").kill();
    }

    pub fn restart_agent(&mut self) {
        self.kill_agent();
        self.start_agent();
        self.wait_ready();
    }

    pub fn assert_alive(&mut self) {
        for part in [&mut self.extender, &mut self.agent] {
            part.as_mut().expect("it was started").assert_alive();
        }
    }

    fn enter(&self, program: &Path) -> Command {
        if self.lasting {
            return self.rig.inside(program);
        }
        enter(&self.rig, program)
    }

    /// Waits until the extender has synced and the kubelet offers what the agent registered.
    pub fn wait_ready(&self) {
        wait::until_ready(&self.rig, "the extender", EXTENDER);
        let cards = self.card_sizes();
        let expected: u64 = cards.values().map(|mib| mib / 1024).sum();
        wait::until("the node to offer the cards", || -> Result<()> {
            let node = self.get(&format!("node {NODE}"))?;
            let allocatable = &node["status"]["allocatable"];
            let offered = allocatable["aliyun.com/gpu-mem"].as_str().unwrap_or("0");
            ensure!(offered == expected.to_string(), "{allocatable}");
            for resource in self.setup.dialects().resources() {
                let offered = allocatable[&**resource].as_str().unwrap_or("0");
                ensure!(offered != "0", "{resource} in {allocatable}");
            }
            let known = self.inspect_node()?;
            ensure!(
                known["devs"]
                    .as_array()
                    .is_some_and(|devs| devs.len() == cards.len())
            );
            Ok(())
        });
    }

    pub fn kubeconfig(&self, account: &str) -> PathBuf {
        self.directory.path().join(format!("{account}.kubeconfig"))
    }

    // --- the extender's answers

    pub fn ask(&self, path: &str) -> Result<Answer> {
        Ok(self.rig.run(|| http::get(EXTENDER, path))?)
    }

    /// A number from the extender's metrics; 0 if it is missing.
    pub fn metric(&self, name: &str) -> u64 {
        let answer = wait::until("the extender's metrics", || self.ask("/metrics"));
        let text = answer.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |value| value.trim().parse().expect("a whole number"))
    }

    pub fn inspect_node(&self) -> Result<Value> {
        let answer = self.ask(&format!("/gpushare-scheduler/inspect/{NODE}"))?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer.json()["nodes"][0].clone())
    }

    /// GiB booked on each card, as the extender sees it.
    pub fn booked(&self) -> Vec<u64> {
        let node = self.inspect_node().expect("the extender inspects its node");
        let cards = node["devs"].as_array().expect("a list of cards");
        cards
            .iter()
            .map(|card| card["usedGPU"].as_u64().unwrap_or(u64::MAX))
            .collect()
    }

    /// Waits until nothing is booked on any card.
    pub fn wait_free(&self) {
        let free = |booked: &Vec<u64>| booked.iter().all(|gib| *gib == 0);
        wait::until_seen("every card to be free", || self.booked(), free);
    }

    // --- containers

    /// The card of a pod, once it runs: the only one in its record, and the one that it sees.
    pub fn card_of(&self, name: &str) -> CardId {
        let card = recorded_card(&self.wait_running(name));
        let seen = &self.env_inside(name)["NVIDIA_VISIBLE_DEVICES"];
        assert_eq!(seen, card.as_str(), "{name}");
        card
    }

    /// The environment of the pod's first container, read from inside it.
    pub fn env_inside(&self, pod: &str) -> BTreeMap<String, String> {
        self.env_by(&format!("exec {pod} -- env"))
    }

    /// The same for one of several containers.
    pub fn env_inside_of(&self, pod: &str, container: &str) -> BTreeMap<String, String> {
        self.env_by(&format!("exec {pod} --container={container} -- env"))
    }

    /// The environment as the container itself printed it at its start.
    pub fn env_logged(&self, pod: &str) -> BTreeMap<String, String> {
        self.env_by(&format!("logs {pod}"))
    }

    /// The same for one of several containers, also for an init container that has ended.
    pub fn env_logged_by(&self, pod: &str, container: &str) -> BTreeMap<String, String> {
        self.env_by(&format!("logs {pod} --container={container}"))
    }

    fn env_by(&self, command: &str) -> BTreeMap<String, String> {
        wait::until("the container's environment", || {
            let env = variables(&self.ctl(command)?);
            ensure!(env.contains_key("PATH"), "{env:?}");
            Ok(env)
        })
    }
}

impl Kubectl for World {
    fn place(&self) -> (&Rig, Option<&str>) {
        (&self.rig, None)
    }
}

fn variables(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The single card that the pod's verified record names for the first container that asks for cards.
pub fn recorded_card(pod: &Value) -> CardId {
    let mut cards = recorded_cards(pod).remove(0);
    assert_eq!(cards.len(), 1, "{cards:?}");
    cards.remove(0)
}

/// The cards that the pod's verified record names for each container that asks for cards, init containers first.
pub fn recorded_cards(pod: &Value) -> Vec<Vec<CardId>> {
    let slim: slim::Pod = serde_json::from_value(pod.clone()).expect("a pod");
    let every_dialect = Setup::cards(&[]).hami().dialects();
    let facts = PodFacts::new(&slim, &every_dialect);
    let bound = facts
        .bound(&gpu::classes())
        .expect("a bound pod")
        .expect("a believable record");
    let placed = bound.placement.containers.iter();
    placed
        .map(|placed| placed.shares.iter().map(|s| s.card.clone()).collect())
        .collect()
}

/// Runs a program in the rig's files and network, but in our own pid namespace. So nsenter need not fork, and the
/// child's pid is the program's.
pub(crate) fn enter(rig: &Rig, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg("--target")
        .arg(rig.pid().to_string())
        .args(["--mount", "--net", "--ipc", "--uts", "--"])
        .arg(program);
    command
}

/// Starts a program that logs to the file of this name among the rig's logs.
pub(crate) fn launch(rig: &Rig, name: &'static str, command: Command, log: &str) -> Process {
    Process::start(name, command, &rig.logs().join(format!("{log}.log")))
}

/// What a program has logged.
pub fn log_of(rig: &Rig, log: &str) -> String {
    fs::read_to_string(rig.logs().join(format!("{log}.log"))).expect("readable")
}

/// Writes a kubeconfig for each of our accounts into `directory`.
pub(crate) fn kubeconfigs(rig: &Rig, directory: &Path, accounts: &[&str]) -> Result<()> {
    let admin = rig.ctl("config view --raw --minify --output=json")?;
    let admin: Value = serde_json::from_str(&admin)?;
    for account in accounts {
        let system = "--namespace=gpushare-system";
        let mut token = format!("create token {account} {system} --duration=24h");
        // Bound to a pod on the agent's node, like a DaemonSet's token: one bound to the Node would end with the Node.
        if *account == "gpushare-node" {
            rig.apply(&agents_pod().to_string())?;
            token.push_str(" --bound-object-kind=Pod --bound-object-name=gpushare-node");
        }
        let mut config = admin.clone();
        config["users"][0]["user"] = json!({"token": rig.ctl(&token)?.trim()});
        let file = directory.join(format!("{account}.kubeconfig"));
        fs::write(file, config.to_string())?;
    }
    Ok(())
}

/// A stand-in for the agent's pod. The agent uses the token of this pod, but runs outside of it.
fn agents_pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gpushare-node", "namespace": "gpushare-system"},
        "spec": {
            "serviceAccountName": "gpushare-node",
            "nodeName": NODE,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [manifest::container("agent", manifest::RUN, json!({}))],
        },
    })
}

/// Writes a certificate for a name or an address, and its key. Returns the certificate.
pub(crate) fn issue(name: &str, certificate: &Path, key: &Path) -> String {
    let issued = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let text = issued.cert.pem();
    fs::write(certificate, &text).expect("written");
    fs::write(key, issued.signing_key.serialize_pem()).expect("written");
    text
}

/// A file of `deploy/`.
pub fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

/// Applies these files of `deploy/`. If they include `crd.yaml`, waits until the API server serves budgets.
pub fn install(rig: &Rig, files: &[&str]) {
    for file in files {
        let text = fs::read_to_string(deploy(file)).expect("readable");
        rig.apply(&text)
            .unwrap_or_else(|error| panic!("{file}: {error:#}"));
    }
    if files.contains(&"crd.yaml") {
        wait::until("the API server serves budgets", || {
            rig.ctl("get gpubudgets")
        });
    }
}

/// Stops the pods of a Deployment of `deploy/`: their image does not exist here, so a process of the test takes their
/// place.
pub(crate) fn without_pods(rig: &Rig, deployment: &str) {
    let system = "--namespace=gpushare-system";
    let scaled = rig.ctl(&format!(
        "scale deployment {deployment} --replicas=0 {system}"
    ));
    scaled.expect("scaled");
}

/// A client with the account of a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Client {
    Client::try_from(client_config(kubeconfig).await).expect("a client")
}

pub(crate) async fn client_config(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.expect("a valid kubeconfig")
}

/// The only extender of a cluster whose nodes have no kubelet, ready to be asked.
pub(crate) fn extender(rig: &Rig, kubeconfigs: &Path, flags: &[&str]) -> Process {
    let mut command = enter(rig, &binary("gpushare-control"));
    command
        .args(["extender", "--listen", EXTENDER, "--leader-elect=false"])
        .args(flags)
        .arg("--kubeconfig")
        .arg(kubeconfigs.join("gpushare-extender.kubeconfig"));
    let extender = launch(rig, "extender", command, "gpushare-extender");
    wait::until_ready(rig, "the extender", EXTENDER);
    extender
}
