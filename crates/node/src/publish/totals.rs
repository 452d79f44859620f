//! The totals in the Node's status: set to what is offered. Entries that this agent once wrote and no
//! longer offers are removed. Entries of other writers stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpushare_core::Quantity;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Map, Value, json};

/// Kubernetes records under this name, in the Node's managedFields, which entries are ours.
pub(super) const MANAGER: &str = "gpushare-node";

/// What must be written, if anything, as a merge patch.
pub(super) fn patch(node: &Node, wanted: &BTreeMap<Arc<str>, u64>) -> Option<Value> {
    let withdrawn: BTreeSet<&str> = written_by_us(node)
        .filter(|name| !wanted.contains_key(*name))
        .collect();
    if withdrawn.is_empty() && is_current(node, wanted) {
        return None;
    }
    let mut entries: Map<String, Value> = wanted
        .iter()
        .map(|(name, amount)| (name.to_string(), json!(amount.to_string())))
        .collect();
    entries.extend(
        withdrawn
            .into_iter()
            .map(|name| (name.to_owned(), Value::Null)),
    );
    Some(json!({"status": {"capacity": entries, "allocatable": entries}}))
}

fn is_current(node: &Node, wanted: &BTreeMap<Arc<str>, u64>) -> bool {
    let status = node.status.as_ref();
    let lists = [
        status.and_then(|status| status.capacity.as_ref()),
        status.and_then(|status| status.allocatable.as_ref()),
    ];
    // Compare by value: the API server writes 16000 as 16k.
    lists.into_iter().all(|list| {
        wanted.iter().all(|(name, amount)| {
            let text = list.and_then(|list| list.get(&**name));
            text.and_then(|text| Quantity::parse(&text.0).ok()?.count().ok()) == Some(*amount)
        })
    })
}

/// The names of resources in the Node's status whose last writer was an agent.
fn written_by_us(node: &Node) -> impl Iterator<Item = &str> {
    let entries = node.metadata.managed_fields.iter().flatten();
    entries
        .filter(|entry| entry.manager.as_deref() == Some(MANAGER))
        .filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:status"))
        .flat_map(|status| [status.get("f:capacity"), status.get("f:allocatable")])
        .filter_map(|list| list?.as_object())
        .flat_map(|list| list.keys().filter_map(|name| name.strip_prefix("f:")))
}
