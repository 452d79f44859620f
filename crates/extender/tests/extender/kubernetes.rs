//! The answers as kube-scheduler reads them (`k8s.io/kube-scheduler/extender/v1`): a field that it does
//! not know is an error.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(crate) struct ExtenderFilterResult {
    pub nodes: Option<NodeList>,
    pub node_names: Option<Vec<String>>,
    pub failed_nodes: Option<BTreeMap<String, String>>,
    pub failed_and_unresolvable_nodes: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub error: String,
}

impl ExtenderFilterResult {
    /// The refused nodes with their reasons.
    pub(crate) fn refused(&self) -> BTreeMap<String, String> {
        self.failed_and_unresolvable_nodes
            .clone()
            .unwrap_or_default()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeList {
    #[serde(rename = "metadata")]
    _metadata: Option<BTreeMap<String, Value>>,
    pub items: Vec<Value>,
}

pub(crate) type HostPriorityList = Vec<HostPriority>;

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(crate) struct HostPriority {
    pub host: String,
    pub score: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(crate) struct ExtenderBindingResult {
    #[serde(default)]
    pub error: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(crate) struct ExtenderPreemptionResult {
    node_name_to_meta_victims: Option<BTreeMap<String, MetaVictims>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetaVictims {
    #[serde(rename = "Pods")]
    pods: Vec<MetaPod>,
    #[serde(rename = "NumPDBViolations")]
    violations: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetaPod {
    #[serde(rename = "UID")]
    uid: String,
}

impl ExtenderPreemptionResult {
    pub(crate) fn nodes(&self) -> Vec<&str> {
        let nodes = self.node_name_to_meta_victims.iter().flatten();
        nodes.map(|(name, _)| name.as_str()).collect()
    }

    /// The victims on a node, sorted by uid; they must not violate a PodDisruptionBudget.
    pub(crate) fn victims(&self, node: &str) -> Vec<String> {
        let nodes = self.node_name_to_meta_victims.as_ref().unwrap();
        let Some(victims) = nodes.get(node) else {
            panic!("{node} is not in {nodes:?}");
        };
        assert_eq!(victims.violations, 0);
        let mut uids: Vec<String> = victims.pods.iter().map(|pod| pod.uid.clone()).collect();
        uids.sort();
        uids
    }
}
