//! Pods as the watch shows them, with the record that the scheduler would have written.

use gpushare_core::gpu::{self, AliyunUnit, CORE, MEMORY, Reading, WHOLE_CORE};
use gpushare_core::placement::{ContainerPlacement, Hold, Placement, Share};
use gpushare_core::record::Record;
use gpushare_core::request::Want;
use gpushare_core::{Amounts, CardId, names};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde_json::{Value, json};

use super::NODE;

const ALL: Reading = Reading {
    aliyun: AliyunUnit::GiB,
    hami: true,
};

/// A pod whose uid is `uid-NAME`.
#[derive(Clone)]
pub(crate) struct Pod {
    pub(crate) name: String,
    object: Value,
}

pub(crate) fn pod(name: &str) -> Pod {
    let object = json!({
        "metadata": {"uid": uid(name), "name": name, "namespace": "default", "annotations": {}},
        "spec": {"nodeName": NODE, "initContainers": [], "containers": []},
        "status": {"phase": "Pending"},
    });
    Pod {
        name: name.to_owned(),
        object,
    }
}

/// One app container `main` with this much memory in Aliyun's dialect, on this card.
pub(crate) fn simple(name: &str, gib: u64, card: &str) -> PodFacts {
    pod(name).app("main", gib).on(card)
}

pub(crate) fn uid(name: &str) -> String {
    format!("uid-{name}")
}

impl Pod {
    /// Asks in Aliyun's dialect, where the kubelet counts one device for each GiB.
    pub(crate) fn app(self, name: &str, gib: u64) -> Self {
        self.container("containers", name, aliyun(gib))
    }

    pub(crate) fn init(self, name: &str, gib: u64) -> Self {
        self.container("initContainers", name, aliyun(gib))
    }

    /// Asks in our own dialect, where the kubelet counts one slot.
    pub(crate) fn app_mib(self, name: &str, mib: u64) -> Self {
        self.container("containers", name, ours(mib))
    }

    pub(crate) fn init_mib(self, name: &str, mib: u64) -> Self {
        self.container("initContainers", name, ours(mib))
    }

    /// An app container with these limits.
    pub(crate) fn asking(self, name: &str, limits: Value) -> Self {
        self.container("containers", name, limits)
    }

    /// An init container that runs until the pod ends.
    pub(crate) fn sidecar(mut self, name: &str, limits: Value) -> Self {
        self = self.container("initContainers", name, limits);
        let containers = self.object["spec"]["initContainers"].as_array_mut();
        let sidecar = containers.unwrap().last_mut().unwrap();
        sidecar["restartPolicy"] = json!("Always");
        self
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers build the limits in place"
    )]
    fn container(mut self, list: &str, name: &str, limits: Value) -> Self {
        let container = json!({"name": name, "resources": {"limits": limits}});
        self.object["spec"][list]
            .as_array_mut()
            .unwrap()
            .push(container);
        self
    }

    pub(crate) fn phase(mut self, phase: &str) -> Self {
        self.object["status"]["phase"] = json!(phase);
        self
    }

    /// Without any record.
    pub(crate) fn facts(&self) -> PodFacts {
        let pod: slim::Pod = serde_json::from_value(self.object.clone()).unwrap();
        PodFacts::new(&pod, &gpu::read(ALL))
    }

    /// With everything on one card, as the scheduler records it.
    pub(crate) fn on(&self, card: &str) -> PodFacts {
        let ask = self.facts().ask.unwrap().unwrap();
        let placement = Placement::on_one_card(&ask, &card.into());
        self.with_record(&self.record(&placement))
    }

    /// With the record that the scheduler would write: each asking container, in order, on its cards, all of this size.
    pub(crate) fn on_cards(&self, gib: u64, cards: &[&[String]]) -> PodFacts {
        let capacity = Amounts::of(MEMORY, gib * 1024).with(CORE, WHOLE_CORE);
        let ask = self.facts().ask.unwrap().unwrap();
        assert_eq!(ask.containers.len(), cards.len());
        let placed = ask.containers.iter().zip(cards);
        let containers = placed.map(|(ask, cards)| {
            let hold = match &ask.want {
                Want::Whole => Hold::Whole,
                Want::Share(part) => Hold::Part(part.on(&capacity)),
            };
            let share = |card: &String| Share {
                card: CardId::new(card),
                hold,
            };
            ContainerPlacement {
                container: ask.container.clone(),
                class: ask.class.clone(),
                shares: cards.iter().map(share).collect(),
            }
        });
        let containers = containers.collect();
        self.with_record(&self.record(&Placement { containers }))
    }

    fn record(&self, placement: &Placement) -> String {
        let pod = uid(&self.name).as_str().into();
        Record::new(pod, NODE.into(), &gpu::classes(), placement).encode()
    }

    pub(crate) fn with_record(&self, record: &str) -> PodFacts {
        let mut pod = self.clone();
        pod.object["metadata"]["annotations"][names::ALLOCATION] = json!(record);
        pod.facts()
    }
}

fn aliyun(gib: u64) -> Value {
    json!({names::ALIYUN_GPU_MEM: gib.to_string()})
}

fn ours(mib: u64) -> Value {
    json!({names::GPU: "1", names::GPU_MEM: mib.to_string()})
}
