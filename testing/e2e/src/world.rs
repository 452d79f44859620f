//! One real cluster with our parts in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use gpushare_core::CardId;
use gpushare_core::gpu;
use gpushare_fake_nvml::hardware::Hardware;
use gpushare_fake_nvml::testing::{self, Installed};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_rig::{Options, Rig};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{self, Answer};
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
    setup: Setup,
    installed: Installed,
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
            installed,
            directory,
            lasting,
        };
        world.write_kubeconfigs()?;
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
        let kubeconfig = self.kubeconfig("gpushare-extender");
        self.start_extender_with(&kubeconfig);
    }

    pub fn start_extender_with(&mut self, kubeconfig: &Path) {
        let mut command = self.enter(&binary("gpushare-control"));
        command
            .args(["extender", "--listen", EXTENDER, "--leader-elect=false"])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(self.setup.hami.then_some("--hami"))
            .args((!self.setup.wake).then_some("--wake=false"));
        let log = self.rig.logs().join("gpushare-extender.log");
        self.extender = Some(Process::start("extender", command, &log));
    }

    /// Applies to the parts that are started from now on.
    pub fn serve_hami(&mut self, hami: bool) {
        self.setup.hami = hami;
    }

    /// An extender that runs beside others.
    pub fn start_replica(&self, name: &'static str, listen: &str) -> Process {
        let mut command = self.enter(&binary("gpushare-control"));
        command
            .args(["extender", "--listen", listen, "--replica-name", name])
            .arg("--kubeconfig")
            .arg(self.kubeconfig("gpushare-extender"));
        let log = self
            .rig
            .logs()
            .join(format!("gpushare-extender-{name}.log"));
        Process::start(name, command, &log)
    }

    /// Applies to the extender that is started next.
    pub fn wake_pods(&mut self, wake: bool) {
        self.setup.wake = wake;
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
        let log = self.rig.logs().join("gpushare-node.log");
        self.agent = Some(Process::start("agent", command, &log));
    }

    fn enter(&self, program: &Path) -> Command {
        if self.lasting {
            return self.rig.inside(program);
        }
        enter(&self.rig, program)
    }

    /// Waits until the extender has synced and the kubelet offers what the agent registered.
    pub fn wait_ready(&self) {
        wait::until("the extender to be ready", || match self.get("/readyz") {
            Ok(answer) if answer.status == 200 => Ok(()),
            other => Err(other),
        });
        let cards = self.card_sizes();
        let expected: u64 = cards.values().map(|mib| mib / 1024).sum();
        wait::until("the node to offer the cards", || -> Result<()> {
            let node = self.object(&["get", "node", NODE])?;
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

    fn write_kubeconfigs(&self) -> Result<()> {
        let accounts = ["gpushare-extender", "gpushare-node"];
        kubeconfigs(&self.rig, self.directory.path(), &accounts)
    }

    pub fn kubeconfig(&self, account: &str) -> PathBuf {
        self.directory.path().join(format!("{account}.kubeconfig"))
    }

    // --- the extender's answers

    pub fn get(&self, path: &str) -> Result<Answer> {
        Ok(self.rig.run(|| http::get(EXTENDER, path))?)
    }

    /// A number from the extender's metrics; 0 if it is missing.
    pub fn metric(&self, name: &str) -> u64 {
        let answer = wait::until("the extender's metrics", || self.get("/metrics"));
        let text = answer.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |value| value.trim().parse().expect("a whole number"))
    }

    pub fn inspect_node(&self) -> Result<Value> {
        let answer = self.get(&format!("/gpushare-scheduler/inspect/{NODE}"))?;
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

    // --- objects

    pub fn apply(&self, object: &Value) {
        self.rig
            .apply(&object.to_string())
            .expect("the object is accepted");
    }

    pub fn object(&self, args: &[&str]) -> Result<Value> {
        let args = [args, &["--output=json"]].concat();
        Ok(serde_json::from_str(&self.rig.kubectl(&args)?)?)
    }

    pub fn pod(&self, name: &str) -> Result<Value> {
        self.object(&["get", "pod", name])
    }

    pub fn wait_running(&self, name: &str) -> Value {
        wait::until(&format!("pod {name} to run"), || {
            let pod = self.pod(name)?;
            let statuses = pod["status"]["containerStatuses"].as_array();
            let ready = statuses.is_some_and(|all| all.iter().all(|one| one["ready"] == true));
            ensure!(ready, "{}", pod["status"]);
            Ok(pod)
        })
    }

    pub fn wait_gone(&self, name: &str) {
        wait::until(&format!("pod {name} to be gone"), || match self.pod(name) {
            Ok(pod) => Err(pod["status"].to_string()),
            Err(_) => Ok(()),
        });
    }

    pub fn delete(&self, name: &str) {
        let delete = ["delete", "pod", name, "--wait=false"];
        self.rig.kubectl(&delete).expect("the pod can be deleted");
    }

    /// The scheduler's reason for refusing the pod, once an event contains `part`.
    pub fn wait_event(&self, pod: &str, part: &str) -> String {
        wait::until(&format!("an event on {pod} with {part:?}"), || {
            let about = format!("--field-selector=involvedObject.name={pod}");
            let events = self.object(&["get", "events", &about])?;
            let messages: Vec<&str> = events["items"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|e| e["message"].as_str())
                .collect();
            match messages.iter().find(|message| message.contains(part)) {
                Some(message) => Ok((*message).to_owned()),
                None => bail!("{messages:?}"),
            }
        })
    }

    /// The environment of the pod's first container, read from inside it.
    pub fn env_inside(&self, pod: &str) -> BTreeMap<String, String> {
        self.env_by(&["exec", pod, "--", "env"])
    }

    /// The same for one of several containers.
    pub fn env_inside_of(&self, pod: &str, container: &str) -> BTreeMap<String, String> {
        self.env_by(&["exec", pod, "--container", container, "--", "env"])
    }

    /// The environment as the container itself printed it at its start.
    pub fn env_logged(&self, pod: &str) -> BTreeMap<String, String> {
        self.env_by(&["logs", pod])
    }

    /// The same for one of several containers, also for an init container that has ended.
    pub fn env_logged_by(&self, pod: &str, container: &str) -> BTreeMap<String, String> {
        self.env_by(&["logs", pod, "--container", container])
    }

    fn env_by(&self, command: &[&str]) -> BTreeMap<String, String> {
        wait::until("the container's environment", || {
            let env = variables(&self.rig.kubectl(command)?);
            ensure!(env.contains_key("PATH"), "{env:?}");
            Ok(env)
        })
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

/// Writes a kubeconfig for each of our accounts into `directory`.
pub(crate) fn kubeconfigs(rig: &Rig, directory: &Path, accounts: &[&str]) -> Result<()> {
    let view = ["config", "view", "--raw", "--minify", "--output=json"];
    let admin: Value = serde_json::from_str(&rig.kubectl(&view)?)?;
    let token = [
        "--namespace=gpushare-system",
        "create",
        "token",
        "--duration=24h",
    ];
    for account in accounts {
        let mut args = [&token[..], &[*account][..]].concat();
        // Bound to a pod on the agent's node, like a DaemonSet's token: one that is bound to the Node ends with it.
        if *account == "gpushare-node" {
            rig.apply(&agents_pod().to_string())?;
            args.extend([
                "--bound-object-kind=Pod",
                "--bound-object-name=gpushare-node",
            ]);
        }
        let mut config = admin.clone();
        let user = json!({"token": rig.kubectl(&args)?.trim()});
        config["users"][0]["user"] = user;
        fs::write(
            directory.join(format!("{account}.kubeconfig")),
            config.to_string(),
        )?;
    }
    Ok(())
}

/// Takes the place of the agent's pod, whose token the agent uses. The agent itself runs beside it.
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

/// A file of `deploy/`.
pub fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

/// Applies these files of `deploy/`, and waits until the API server serves budgets if it is told of them.
pub fn install(rig: &Rig, files: &[&str]) {
    for file in files {
        let text = fs::read_to_string(deploy(file)).expect("readable");
        rig.apply(&text)
            .unwrap_or_else(|error| panic!("{file}: {error:#}"));
    }
    if files.contains(&"crd.yaml") {
        wait::until("the API server serves budgets", || {
            rig.kubectl(&["get", "gpubudgets"])
        });
    }
}

/// The only extender of a cluster whose nodes have no kubelet, ready to be asked.
pub(crate) fn extender(rig: &Rig, kubeconfigs: &Path, flags: &[&str]) -> Process {
    let mut command = enter(rig, &binary("gpushare-control"));
    command
        .args(["extender", "--listen", EXTENDER, "--leader-elect=false"])
        .args(flags)
        .arg("--kubeconfig")
        .arg(kubeconfigs.join("gpushare-extender.kubeconfig"));
    let log = rig.logs().join("gpushare-extender.log");
    let extender = Process::start("extender", command, &log);
    wait::until_ready(rig, "the extender", EXTENDER);
    extender
}
