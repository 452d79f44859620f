//! Cards and pods for the unit tests of this crate.

use gpushare_core::gpu::{self, AliyunUnit, CORE, MEMORY, WHOLE_CORE};
use gpushare_core::ledger::Bound;
use gpushare_core::placement::Placement;
use gpushare_core::record::Record;
use gpushare_core::{Amounts, Card, CardId, names};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde_json::{Value, json};

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

/// A pod called like its uid; its init container is called `init`, its app container `app`.
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
        self.object["spec"]["containers"] = json!([container("app", gib)]);
        self
    }

    pub(crate) fn init(mut self, gib: u64) -> Self {
        self.object["spec"]["initContainers"] = json!([container("init", gib)]);
        self
    }

    pub(crate) fn phase(mut self, phase: &str) -> Self {
        self.object["status"]["phase"] = json!(phase);
        self
    }

    /// Carries a correct record with everything on this card.
    pub(crate) fn on(mut self, card: &str) -> Self {
        let ask = self.clone().facts().ask.unwrap().unwrap();
        let placement = Placement::on_one_card(&ask, &card.into());
        let uid = self.uid.as_str().into();
        let record = Record::new(uid, NODE.into(), &gpu::classes(), &placement);
        self.object["metadata"]["annotations"][names::ALLOCATION] = json!(record.encode());
        self
    }

    pub(crate) fn facts(self) -> PodFacts {
        let pod: slim::Pod = serde_json::from_value(self.object).unwrap();
        PodFacts::new(&pod, &gpu::dialects(AliyunUnit::GiB))
    }

    pub(crate) fn bound(self) -> Bound {
        self.facts().bound(&gpu::classes()).unwrap().unwrap()
    }
}

fn container(name: &str, gib: u64) -> Value {
    let limits = json!({names::ALIYUN_GPU_MEM: gib.to_string()});
    json!({"name": name, "resources": {"limits": limits}})
}
