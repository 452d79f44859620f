//! Cards and pods for the unit tests of this crate.

use gpushare_core::gpu::{self, AliyunUnit, CORE, MEMORY, Reading, WHOLE_CORE};
use gpushare_core::ledger::BoundPod;
use gpushare_core::placement::{ContainerPlacement, Hold, Placement, Share};
use gpushare_core::record::Record;
use gpushare_core::request::{ContainerAsk, PodAsk, Want};
use gpushare_core::{Amounts, Card, CardId, names};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde_json::{Value, json};

use crate::config::SlotsPerCard;
use crate::offer::Offer;

pub(crate) const NODE: &str = "node-1";

pub(crate) fn card(index: u32, mib: u64) -> Card {
    Card {
        id: CardId::new(format!("GPU-{index}")),
        class: gpu::CLASS.into(),
        index,
        model: "A10".into(),
        capacity: Amounts::of(MEMORY, mib).with(CORE, WHOLE_CORE),
        healthy: true,
    }
}

fn reading(hami: bool) -> Reading {
    Reading {
        aliyun: AliyunUnit::GiB,
        hami,
    }
}

pub(crate) fn offer(hami: bool) -> Offer {
    let slots = SlotsPerCard {
        gpushare: 100,
        hami: 10,
    };
    Offer::new(reading(hami), slots)
}

/// A pod whose name is its uid; its init container is named `init`, its app container `app`.
#[derive(Clone, Debug)]
pub(crate) struct PodMaker {
    uid: String,
    object: Value,
}

impl PodMaker {
    pub(crate) fn new(uid: &str) -> Self {
        let object = json!({
            "metadata": {"uid": uid, "name": uid, "namespace": "default", "annotations": {}},
            "spec": {"nodeName": NODE, "initContainers": [], "containers": []},
            "status": {"phase": "Running"},
        });
        Self {
            uid: uid.to_owned(),
            object,
        }
    }

    /// Asks for this much, in Aliyun's dialect.
    pub(crate) fn app(mut self, gib: u64) -> Self {
        self.add("containers", container("app", &aliyun(gib)));
        self
    }

    pub(crate) fn init(mut self, gib: u64) -> Self {
        self.add("initContainers", container("init", &aliyun(gib)));
        self
    }

    /// One more app container, which asks for this.
    pub(crate) fn asking(mut self, name: &str, limits: &[(&str, u64)]) -> Self {
        let limits = limits
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), json!(amount.to_string())))
            .collect();
        self.add("containers", container(name, &Value::Object(limits)));
        self
    }

    fn add(&mut self, list: &str, container: Value) {
        let list = self.object["spec"][list].as_array_mut();
        list.unwrap().push(container);
    }

    pub(crate) fn phase(mut self, phase: &str) -> Self {
        self.object["status"]["phase"] = json!(phase);
        self
    }

    pub(crate) fn annotated(mut self, name: &str, value: &str) -> Self {
        self.object["metadata"]["annotations"][name] = json!(value);
        self
    }

    /// Carries a correct record with everything on this card.
    pub(crate) fn on(self, card: &str) -> Self {
        let placement = Placement::on_one_card(&self.ask(), &card.into());
        self.recorded(&placement)
    }

    /// Carries a correct record with every container on all of these cards.
    pub(crate) fn on_all(self, cards: &[&Card]) -> Self {
        let ask = self.ask();
        let placed = ask.containers.iter().map(|ask| ContainerPlacement {
            container: ask.container.clone(),
            class: ask.class.clone(),
            shares: cards.iter().map(|card| share(ask, card)).collect(),
        });
        let containers = placed.collect();
        self.recorded(&Placement { containers })
    }

    pub(crate) fn recorded(mut self, placement: &Placement) -> Self {
        let uid = self.uid.as_str().into();
        let record = Record::new(uid, NODE.into(), &gpu::classes(), placement);
        self.object["metadata"]["annotations"][names::ALLOCATION] = json!(record.encode());
        self
    }

    pub(crate) fn ask(&self) -> PodAsk {
        self.clone().facts().ask.unwrap().unwrap()
    }

    pub(crate) fn facts(self) -> PodFacts {
        let pod: slim::Pod = serde_json::from_value(self.object).unwrap();
        PodFacts::new(&pod, &gpu::read(reading(true)))
    }

    pub(crate) fn bound(self) -> BoundPod {
        self.facts().bound(&gpu::classes()).unwrap().unwrap()
    }
}

/// What the container holds on a card according to its own request.
fn share(ask: &ContainerAsk, card: &Card) -> Share {
    Share {
        card: card.id.clone(),
        hold: match &ask.want {
            Want::Whole => Hold::Whole,
            Want::Share(part) => Hold::Part(part.on(&card.capacity)),
        },
    }
}

fn aliyun(gib: u64) -> Value {
    json!({names::ALIYUN_GPU_MEM: gib.to_string()})
}

fn container(name: &str, limits: &Value) -> Value {
    json!({"name": name, "resources": {"limits": limits}})
}
