//! The answers as kube-scheduler reads them (`k8s.io/kube-scheduler/extender/v1`): a field it does not
//! have is a mistake.

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
