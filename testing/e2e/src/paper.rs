//! A real API server, scheduler and extender over nodes that are only on paper. Pods are refused and bound as usual,
//! but never run. A test can set up any nodes and cards in a moment.

use std::process::Output;

use anyhow::Context;
use gpushare_core::{Amounts, Card, CardId, gpu, inventory, names};
use gpushare_rig::{Options, Rig};
use serde_json::{Value, json};

use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::setup::Setup;
use crate::wait;
use crate::world::{NODE, binary, extender, install, kubeconfigs};

/// A label with the node's name, for pods that must run on that node.
pub const NAME_LABEL: &str = "paper";

#[derive(Debug)]
pub struct Paper {
    extender: Process,
    rig: Rig,
    _directory: tempfile::TempDir,
}

/// A node as a test case needs it.
#[derive(Clone, Debug)]
pub struct PaperNode {
    pub name: &'static str,
    /// Model and MiB of each card.
    pub cards: Vec<(&'static str, u64)>,
    pub healthy: bool,
    pub cpu: &'static str,
    pub memory: &'static str,
    pub pods: &'static str,
    /// Whether its status contains the totals of the cards.
    pub offers: bool,
    /// Merged into the object.
    pub spec: Value,
    pub labels: Value,
}

impl PaperNode {
    pub fn new(name: &'static str, mib: &[u64]) -> Self {
        Self {
            name,
            cards: mib.iter().map(|mib| ("NVIDIA A10", *mib)).collect(),
            healthy: true,
            cpu: "8",
            memory: "64Gi",
            pods: "110",
            offers: true,
            spec: json!({}),
            labels: json!({}),
        }
    }

    fn inventory(&self) -> String {
        let cards: Vec<Card> = (0..)
            .zip(&self.cards)
            .map(|(index, (model, mib))| Card {
                id: CardId::new(format!("GPU-{}-{index}", self.name)),
                class: gpu::CLASS.into(),
                index,
                model: (*model).into(),
                capacity: Amounts::of(gpu::MEMORY, *mib).with(gpu::CORE, gpu::WHOLE_CORE),
                healthy: self.healthy,
            })
            .collect();
        inventory::encode(&gpu::classes(), &cards)
    }

    /// The totals, as the agent would write them.
    fn totals(&self) -> Value {
        let sum: u64 = self.cards.iter().map(|(_, mib)| mib).sum();
        let count = u64::try_from(self.cards.len()).expect("few");
        let mut totals = json!({"cpu": self.cpu, "memory": self.memory, "pods": self.pods});
        if self.offers && count > 0 {
            let ours = [
                (names::GPU, count * 100),
                (names::GPU_MEM, sum),
                (names::GPU_CORE, count * 100),
                (names::ALIYUN_GPU_MEM, sum / 1024),
                (names::ALIYUN_GPU_COUNT, count),
                (names::tencent::CORE, count * 100),
                (names::tencent::MEMORY, sum / gpu::TENCENT_BLOCK_MIB),
            ];
            for (name, amount) in ours {
                totals[name] = json!(amount.to_string());
            }
        }
        totals
    }

    /// Creates the node, or updates it.
    pub fn set_on(&self, rig: &Rig) {
        let mut labels = self.labels.clone();
        labels[NAME_LABEL] = json!(self.name);
        let mut metadata = json!({"name": self.name, "labels": labels});
        if !self.cards.is_empty() {
            metadata["annotations"] = json!({names::CARDS: self.inventory()});
        }
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        Kubectl::apply(rig, &object);
        let totals = self.totals();
        let ready = json!([{"type": "Ready", "status": "True", "reason": "Paper", "message": ""}]);
        let status =
            json!({"status": {"capacity": totals, "allocatable": totals, "conditions": ready}});
        let change = |how: &str, patch: &Value| {
            let patched = rig.patch(&format!("node {} --type=merge {how}", self.name), patch);
            patched.unwrap_or_else(|error| panic!("{patch}: {error:#}"));
        };
        change("--subresource=status", &status);
        // The API server taints every new node as not ready, and no controller here removes the taint.
        let mut spec = json!({"taints": null});
        for (key, value) in self.spec.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        change("", &json!({"spec": spec}));
    }
}

/// A cluster without nodes and kubelet, for nodes that are only on paper.
pub fn without_nodes(scheduler_extra: String) -> Rig {
    let options = Options {
        scheduler_extra,
        // No controller may judge nodes by heartbeats, because none are sent.
        controllers_extra: vec!["--controllers=*,-node-lifecycle-controller".to_owned()],
        ..Options::default()
    };
    let rig = Rig::start(options).expect("the rig starts");
    rig.stop_component("kubelet").expect("stopped");
    rig.ctl(&format!("delete node {NODE}")).expect("deleted");
    rig
}

impl Paper {
    pub fn start() -> Self {
        let rig = without_nodes(Setup::cards(&[]).scheduler());
        let directory = tempfile::tempdir().expect("a directory");
        install(&rig, &["rbac.yaml", "admission.yaml"]);
        kubeconfigs(&rig, directory.path(), &["gpushare-extender"]).expect("kubeconfigs");
        let extender = extender(&rig, directory.path(), &[]);
        Self {
            extender,
            rig,
            _directory: directory,
        }
    }

    /// Our plugin, as a user of the cluster calls it.
    pub fn plugin(&self, args: &[&str]) -> Output {
        let mut command = self.rig.net(binary("kubectl-gpushare"));
        command.args(args).output().expect("the plugin starts")
    }

    /// What stock kubectl suggests after these words, with our programs on its PATH.
    pub fn completed(&self, words: &[&str]) -> String {
        let mut command = self.rig.net("kubectl");
        let own = binary("kubectl_complete-gpushare");
        let directory = own.parent().expect("a directory").display().to_string();
        let path = command
            .get_envs()
            .find(|(name, _)| *name == "PATH")
            .and_then(|(_, value)| value)
            .map(|value| value.to_string_lossy().into_owned())
            .unwrap_or_default();
        command.env("PATH", format!("{directory}:{path}"));
        let output = command.arg("__complete").args(words).output();
        let output = output.expect("kubectl starts");
        String::from_utf8(output.stdout).expect("text")
    }

    pub fn assert_alive(&mut self) {
        self.extender.assert_alive();
    }

    /// Creates the node, or updates it.
    pub fn set_node(&self, node: &PaperNode) {
        node.set_on(&self.rig);
    }

    /// The node of a pod, once it has one.
    pub fn wait_bound(&self, namespace: &str, selector: &str) -> String {
        wait::until(&format!("{selector} to be bound"), || {
            let found = self.get(&format!("pods --namespace={namespace} {selector}"))?;
            let pods = found["items"].as_array().cloned().unwrap_or(vec![found]);
            let node = pods.iter().find_map(|pod| pod["spec"]["nodeName"].as_str());
            let conditions = pods
                .iter()
                .map(|pod| pod["status"]["conditions"].to_string());
            let node = node.with_context(|| conditions.collect::<String>())?;
            anyhow::Ok(node.to_owned())
        })
    }
}

impl Kubectl for Paper {
    fn place(&self) -> (&Rig, Option<&str>) {
        (&self.rig, None)
    }
}
