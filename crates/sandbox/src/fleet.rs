//! The simulated machines: their names, cards and Node objects. Pure; what runs on them is decided elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpushare_core::gpu::{self, AliyunUnit, CORE, MEMORY, Reading, WHOLE_CORE};
use gpushare_core::{Amounts, Card, CardId};
use gpushare_node::config::SlotsPerCard;
use gpushare_node::offer::Offer;
use serde_json::{Value, json};

/// On the first nodes, up to this many, a complete agent runs.
pub const AGENTS: usize = 8;

/// How requests are read in the sandbox: every dialect is on.
pub(crate) const READING: Reading = Reading {
    aliyun: AliyunUnit::GiB,
    hami: true,
};

/// How many containers can share a card: the agents' defaults.
pub(crate) const SLOTS: SlotsPerCard = SlotsPerCard {
    gpushare: 100,
    hami: 10,
};

struct Shape {
    name: &'static str,
    cards: &'static [(&'static str, u64)],
    cpus: u32,
    memory_gib: u32,
}

const T4: (&str, u64) = ("Tesla T4", 15_360);
const A10: (&str, u64) = ("NVIDIA A10", 23_028);
const L40S: (&str, u64) = ("NVIDIA L40S", 46_068);
const A100: (&str, u64) = ("NVIDIA A100-SXM4-80GB", 81_920);

const SHAPES: [Shape; 4] = [
    Shape {
        name: "a100",
        cards: &[A100, A100],
        cpus: 64,
        memory_gib: 512,
    },
    Shape {
        name: "t4",
        cards: &[T4, T4],
        cpus: 16,
        memory_gib: 64,
    },
    Shape {
        name: "mixed",
        cards: &[L40S, T4, T4],
        cpus: 32,
        memory_gib: 128,
    },
    Shape {
        name: "a10",
        cards: &[A10, A10],
        cpus: 32,
        memory_gib: 128,
    },
];

/// The shapes of the small fleet, in the order of its nodes.
const SMALL: [usize; 5] = [0, 1, 1, 2, 3];

/// One simulated machine.
#[derive(Clone, Debug)]
pub struct Machine {
    pub name: String,
    /// Its place in the fleet.
    pub number: usize,
    pub cards: Arc<[Card]>,
    cpus: u32,
    memory_gib: u32,
}

/// The machines of a sandbox: the small fleet, or this many, cycling through all shapes.
pub fn machines(nodes: Option<usize>) -> Vec<Machine> {
    let shapes: Vec<usize> = match nodes {
        None => SMALL.to_vec(),
        Some(count) => (0..SHAPES.len()).cycle().take(count).collect(),
    };
    let mut counts = BTreeMap::new();
    let mut machines = Vec::with_capacity(shapes.len());
    for (number, shape) in shapes.into_iter().enumerate() {
        let Some(shape) = SHAPES.get(shape) else {
            continue;
        };
        let count = counts.entry(shape.name).or_insert(0_usize);
        *count += 1;
        machines.push(machine(number, *count, shape));
    }
    machines
}

fn machine(number: usize, count: usize, shape: &Shape) -> Machine {
    let card = |(index, (model, mib)): (u32, &(&str, u64))| Card {
        id: CardId::new(format!("GPU-{number:08x}-5a5a-4000-8000-{index:012x}")),
        class: gpu::CLASS.into(),
        index,
        model: (*model).into(),
        capacity: Amounts::of(MEMORY, *mib).with(CORE, WHOLE_CORE),
        healthy: true,
    };
    Machine {
        name: format!("{}-{count}", shape.name),
        number,
        cards: (0..).zip(shape.cards).map(card).collect(),
        cpus: shape.cpus,
        memory_gib: shape.memory_gib,
    }
}

impl Machine {
    pub(crate) fn has_agent(&self) -> bool {
        self.number < AGENTS
    }

    pub(crate) fn address(&self) -> String {
        let number = self.number + 1;
        format!(
            "10.{}.{}.{}",
            64 + number / 65_536,
            number / 256 % 256,
            number % 256
        )
    }

    /// The Node as its kubelet registers it. If no agent runs there, it contains from the start what the kubelet would
    /// learn from the agent's device plugins.
    pub(crate) fn node(&self, offer: &Offer) -> Value {
        let mut capacity = json!({
            "cpu": self.cpus.to_string(),
            "memory": format!("{}Gi", self.memory_gib),
            "ephemeral-storage": "500Gi",
            "pods": "250",
        });
        if let (false, Some(capacity)) = (self.has_agent(), capacity.as_object_mut()) {
            for division in &offer.divisions {
                let devices = division.devices(&self.cards);
                let count = devices.map_or(0, |list| list.devices.len());
                capacity.insert(division.resource().to_owned(), count.to_string().into());
            }
        }
        let now = jiff::Timestamp::now();
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |kind: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            })
        };
        let models: Vec<&str> = self.cards.iter().map(|card| &*card.model).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": {
                    "kubernetes.io/hostname": self.name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "gpushare.io/sandbox": if self.has_agent() { "agent" } else { "published" },
                },
                "annotations": {"gpushare.io/sandbox-cards": models.join(", ")},
            },
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "addresses": [
                    {"type": "InternalIP", "address": self.address()},
                    {"type": "Hostname", "address": self.name},
                ],
                "conditions": [
                    condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "simulated"),
                    condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "simulated"),
                    condition("PIDPressure", "False", "KubeletHasSufficientPID", "simulated"),
                    condition("Ready", "True", "KubeletReady", "the sandbox's kubelet is ready"),
                ],
                "nodeInfo": {
                    "machineID": "", "systemUUID": "", "bootID": "",
                    "kernelVersion": "simulated", "osImage": "gpushare sandbox",
                    "containerRuntimeVersion": "none://simulated",
                    "kubeletVersion": "v1.36.4-sandbox", "kubeProxyVersion": "",
                    "operatingSystem": "linux", "architecture": "amd64",
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_small_fleet_has_several_models_and_one_node_with_mixed_cards() {
        let machines = machines(None);
        let models = |machine: &Machine| -> BTreeSet<String> {
            let cards = machine.cards.iter();
            cards.map(|card| card.model.to_string()).collect()
        };
        let all: BTreeSet<String> = machines.iter().flat_map(models).collect();
        assert!(all.len() >= 4, "{all:?}");
        let mixed = machines.iter().filter(|machine| models(machine).len() > 1);
        assert_eq!(mixed.count(), 1);
    }

    #[test]
    fn no_two_nodes_share_a_name_an_address_or_a_card() {
        let machines = machines(Some(5000));
        let names: BTreeSet<&str> = machines.iter().map(|m| m.name.as_str()).collect();
        let addresses: BTreeSet<String> = machines.iter().map(Machine::address).collect();
        let cards = machines.iter().flat_map(|machine| machine.cards.iter());
        let count = cards.clone().count();
        let ids: BTreeSet<&str> = cards.map(|card| card.id.as_str()).collect();
        assert_eq!(
            (names.len(), addresses.len(), ids.len()),
            (5000, 5000, count)
        );
    }
}
