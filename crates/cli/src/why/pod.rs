//! The pod in question, as gpushare and kube-scheduler read it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use gpushare_core::dialect::Dialects;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_kube::totals::{CPU, MEMORY, StatedResources, Totals};
use k8s_openapi::api::core::v1::{Affinity, Toleration};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The scheduler of pods that name none.
pub(super) const DEFAULT_SCHEDULER: &str = "default-scheduler";

#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) object: Value,
    pub(super) facts: PodFacts,
    /// How much it uses of a node's totals.
    pub(super) needs: Totals,
    /// Of CPU and memory.
    pub(super) limits: Totals,
    pub(super) placing: Placing,
}

/// What kube-scheduler considers besides resources.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Placing {
    #[serde(default)]
    pub(super) scheduler_name: Option<String>,
    #[serde(default)]
    pub(super) priority_class_name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) node_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) affinity: Option<Affinity>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) tolerations: Vec<Toleration>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) scheduling_gates: Vec<Gate>,
    #[serde(default, deserialize_with = "or_default")]
    volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Gate {
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    #[serde(default)]
    persistent_volume_claim: Option<Claim>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    #[serde(default)]
    claim_name: String,
}

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl Pod {
    pub(super) fn read(object: Value, dialects: &Dialects) -> Result<Self> {
        let slim: slim::Pod =
            serde_json::from_value(object.clone()).context("this is not a valid pod")?;
        let spec = object.get("spec").cloned().unwrap_or_default();
        let stated = StatedResources::from(&slim.spec);
        let limit = |name: &str| (name.to_owned(), stated.limit(name));
        Ok(Self {
            facts: PodFacts::new(&slim, dialects),
            needs: stated.requests(),
            limits: [CPU, MEMORY].map(limit).into(),
            placing: serde_json::from_value(spec).context("the pod's spec cannot be read")?,
            object,
        })
    }

    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        let text = self.object.pointer(pointer)?.as_str()?;
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn scheduler(&self) -> &str {
        let name = self.placing.scheduler_name.as_deref();
        name.filter(|name| !name.is_empty())
            .unwrap_or(DEFAULT_SCHEDULER)
    }

    /// Persistent volume claims that must exist.
    pub(super) fn claims(&self) -> impl Iterator<Item = &str> {
        let claims = self.placing.volumes.iter();
        claims
            .filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
    }

    /// The pod's condition with the scheduler's latest decision.
    pub(super) fn scheduled_condition(&self) -> Option<&Value> {
        let conditions = self.object.pointer("/status/conditions")?.as_array()?;
        conditions.iter().find(|condition| {
            condition
                .get("type")
                .is_some_and(|kind| kind == "PodScheduled")
        })
    }
}
