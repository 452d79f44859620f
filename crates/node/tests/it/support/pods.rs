//! Pods as the watch shows them, with the record that the scheduler would have written.

use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::names;
use gpushare_core::placement::Placement;
use gpushare_core::record::Record;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde_json::{Value, json};

use super::NODE;

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
        self.container("containers", name, &aliyun(gib))
    }

    pub(crate) fn init(self, name: &str, gib: u64) -> Self {
        self.container("initContainers", name, &aliyun(gib))
    }

    /// Asks in our own dialect, where the kubelet counts one slot.
    pub(crate) fn app_mib(self, name: &str, mib: u64) -> Self {
        self.container("containers", name, &ours(mib))
    }

    pub(crate) fn init_mib(self, name: &str, mib: u64) -> Self {
        self.container("initContainers", name, &ours(mib))
    }

    fn container(mut self, list: &str, name: &str, limits: &Value) -> Self {
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
        PodFacts::new(&pod, &gpu::dialects(AliyunUnit::GiB))
    }

    /// With everything on one card, as the scheduler records it.
    pub(crate) fn on(&self, card: &str) -> PodFacts {
        let ask = self.facts().ask.unwrap().unwrap();
        let placement = Placement::on_one_card(&ask, &card.into());
        let pod = uid(&self.name).as_str().into();
        let record = Record::new(pod, NODE.into(), &gpu::classes(), &placement);
        self.with_record(&record.encode())
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
