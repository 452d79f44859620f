//! The node agents: which nodes have published cards, whether the kubelet offers them, and whether the
//! node's totals match the cards.

use anyhow::Result;
use gpushare_core::dialect::Dialects;
use gpushare_core::{gpu, names};
use gpushare_kube::convert::{self, PodFacts};
use gpushare_kube::slim;
use gpushare_kube::totals;
use k8s_openapi::api::core::v1::Node;
use kube::Client;

use super::check::{Check, Name, fail, ok, warn};
use crate::connection::{self, NODES, Only};

const AGENTS: &str = "node agents";
const OFFERED: &str = "device plugin";
const TOTALS: &str = "totals";
const HEALTH: &str = "cards";
const LEFTOVERS: &str = "predecessors";
/// How many names to list.
const MOST_NAMED: usize = 5;

/// Labels with which other software marks nodes with cards.
const GPU_LABELS: [&str; 3] = [
    "nvidia.com/gpu.present",
    "feature.node.kubernetes.io/pci-10de.present",
    "gpushare",
];

/// Name prefixes of pods of other systems that hand out the same cards.
const OTHERS: [(&str, &str); 6] = [
    (
        "gpushare-schd-extender",
        "Aliyun's gpushare scheduler extender",
    ),
    ("gpushare-device-plugin", "Aliyun's gpushare device plugin"),
    (
        "nvidia-device-plugin",
        "NVIDIA's device plugin, which gives out whole cards",
    ),
    ("hami-device-plugin", "HAMi's device plugin"),
    ("hami-scheduler", "HAMi's scheduler"),
    ("gpu-manager", "Tencent's gpu-manager"),
];

/// Findings about pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Pods {
    /// Bound, with a valid record.
    pub(super) recorded: usize,
    /// Bound and asking for cards, but without a record.
    pub(super) unrecorded: Vec<String>,
    pub(super) unbelievable: Vec<String>,
    others: Vec<String>,
}

#[derive(Default)]
pub(super) struct Nodes {
    pub(super) with_cards: Vec<String>,
    cards: usize,
    sick: Vec<String>,
    unreadable: Vec<String>,
    silent: Vec<String>,
    not_offered: Vec<String>,
    wrong_totals: Vec<String>,
}

pub(super) async fn look(
    client: &Client,
    dialects: &Dialects,
) -> Result<(Vec<Check>, Nodes, Pods)> {
    let mut nodes = Nodes::default();
    connection::each(client, NODES, Only::Everything, |node: Node| {
        nodes.add(&node, dialects);
        Ok(())
    })
    .await?;
    let mut pods = Pods::default();
    connection::each_pod(client, |pod| pods.add(pod, dialects)).await?;
    let mut checks = nodes.checks();
    checks.push(pods.others());
    Ok((checks, nodes, pods))
}

impl Nodes {
    fn add(&mut self, node: &Node, dialects: &Dialects) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let read = slim::Node {
            metadata: node.metadata.clone(),
            ..slim::Node::default()
        };
        let cards = match convert::cards(&read, &dialects.classes) {
            Err(error) => return self.unreadable.push(format!("{name} ({error})")),
            Ok(None) => {
                let labels = node.metadata.labels.iter().flatten();
                let marked = |(key, value): (&String, &String)| {
                    GPU_LABELS.contains(&key.as_str()) && value == "true"
                };
                if labels.into_iter().any(marked) {
                    self.silent.push(name);
                }
                return;
            }
            Ok(Some(cards)) => cards,
        };
        self.with_cards.push(name.clone());
        self.cards += cards.len();
        let sick = cards.iter().filter(|card| !card.healthy);
        self.sick
            .extend(sick.map(|card| format!("{} on {name}", card.id)));
        let allocatable = node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref());
        let offered = |resource: &str| {
            let quantity = allocatable.and_then(|all| all.get(resource));
            quantity.map_or(0, |quantity| totals::amount(resource, &quantity.0))
        };
        if !cards.is_empty() && offered(names::GPU) == 0 {
            self.not_offered.push(name.clone());
        }
        let memory = cards
            .iter()
            .filter(|card| *card.class == *gpu::CLASS)
            .fold(0_u64, |sum, card| {
                sum.saturating_add(card.capacity.get(gpu::MEMORY))
            });
        let found = offered(names::GPU_MEM);
        if u64::try_from(found).unwrap_or(0) != memory {
            self.wrong_totals.push(format!(
                "{name} ({found} MiB offered, {memory} on its cards)"
            ));
        }
    }

    fn checks(&self) -> Vec<Check> {
        let agents = if self.with_cards.is_empty() {
            let fix = "run the gpushare node agent on every node with cards (docs/node-agent.md)";
            fail(AGENTS, "no node has published cards", fix)
        } else if !self.unreadable.is_empty() {
            let fix = "run agents and this program in the same version";
            fail(
                AGENTS,
                format!("cards cannot be read: {}", some(&self.unreadable)),
                fix,
            )
        } else if !self.silent.is_empty() {
            let message = format!(
                "nodes are labelled as having GPUs, and no agent has published any: {}",
                some(&self.silent)
            );
            warn(
                AGENTS,
                message,
                "run the agent there, and look at its log if it does",
            )
        } else {
            ok(
                AGENTS,
                format!("{} cards on {} nodes", self.cards, self.with_cards.len()),
            )
        };
        let offered = listed(
            &self.not_offered,
            OFFERED,
            "every node with cards offers gpushare.io/gpu",
            "gpushare.io/gpu is not offered by",
            "look at the agent's log there: the kubelet has no connection to its device plugin",
        );
        let totals = listed(
            &self.wrong_totals,
            TOTALS,
            "the nodes' totals agree with their cards",
            "the total of gpushare.io/gpu-mem is wrong on",
            "look at the agent's log there: it brings the Node's status up to date; check deploy/rbac.yaml",
        );
        let health = if self.sick.is_empty() {
            ok(HEALTH, "all are healthy")
        } else {
            let message = format!("unhealthy: {}", some(&self.sick));
            warn(
                HEALTH,
                message,
                "look at the agent's log and nvidia-smi there; they take no new pods",
            )
        };
        vec![agents, offered, totals, health]
    }
}

impl Pods {
    fn add(&mut self, pod: &slim::Pod, dialects: &Dialects) {
        let facts = PodFacts::new(pod, dialects);
        let named = || format!("{}/{}", facts.namespace, facts.name);
        let other = OTHERS.iter().find(|(part, _)| facts.name.starts_with(part));
        if let Some((_, what)) = other {
            self.others.push(format!("{} ({what})", named()));
        }
        if facts.ended {
            return;
        }
        if facts.is_past_scheduler() {
            // In this cluster HAMi's resources may belong to another plugin.
            if !asks_in_hami(&facts, dialects) {
                self.unrecorded.push(named());
            }
            return;
        }
        match facts.bound(&dialects.classes) {
            Some(Ok(_)) => self.recorded += 1,
            Some(Err(error)) => self.unbelievable.push(format!("{} ({error})", named())),
            None => {}
        }
    }

    fn others(&self) -> Check {
        if self.others.is_empty() {
            return ok(LEFTOVERS, "none hands out the same cards");
        }
        let message = format!("they hand out the same cards: {}", some(&self.others));
        warn(
            LEFTOVERS,
            message,
            "remove them from nodes that gpushare serves, or keep the two on different nodes",
        )
    }
}

fn asks_in_hami(facts: &PodFacts, dialects: &Dialects) -> bool {
    match &facts.ask {
        Ok(None) => false,
        Ok(Some(ask)) => {
            let mut containers = ask.containers.iter();
            containers.any(|container| *container.dialect == *gpu::HAMI)
        }
        Err(violations) => {
            let mut known = dialects.dialects.iter();
            let hami = known.find(|dialect| *dialect.name == *gpu::HAMI);
            let of_hami = |field| hami.is_some_and(|hami| hami.resources().any(|own| own == field));
            violations.0.iter().all(|wrong| of_hami(&wrong.field))
        }
    }
}

fn listed(found: &[String], name: Name, good: &str, bad: &str, fix: &str) -> Check {
    if found.is_empty() {
        ok(name, good)
    } else {
        fail(name, format!("{bad} {}", some(found)), fix)
    }
}

pub(super) fn some(names: &[String]) -> String {
    let first = names.get(..MOST_NAMED).unwrap_or(names);
    match names.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
