//! What a pod takes of its node's totals, computed as kube-scheduler does: CPU, memory, local storage, huge pages, and
//! extended resources.

use std::collections::BTreeMap;

use gpushare_core::Quantity;
use k8s_openapi::api::core::v1::Node;

mod stated;

pub use stated::StatedResources;

/// By resource name: CPU in thousandths, memory in bytes, all others as counts.
pub type Totals = BTreeMap<String, i64>;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";
pub(crate) const STORAGE: &str = "ephemeral-storage";
const HUGE_PAGES: &str = "hugepages-";

/// A quantity of this resource in the unit of [`Totals`]; what cannot be parsed counts as zero.
pub fn amount(resource: &str, text: &str) -> i64 {
    let per_unit = if resource == CPU { 1_000 } else { 1 };
    Quantity::parse(text).map_or(0, |quantity| quantity.rounded_up(per_unit))
}

/// An amount of a resource as people write it.
pub fn text(resource: &str, amount: i64) -> String {
    const MIB: i64 = 1 << 20;
    match resource {
        CPU if amount % 1_000 == 0 => (amount / 1_000).to_string(),
        CPU => format!("{amount}m"),
        _ if is_in_bytes(resource) && amount % MIB == 0 => format!("{}Mi", amount / MIB),
        _ => amount.to_string(),
    }
}

fn is_in_bytes(resource: &str) -> bool {
    matches!(resource, MEMORY | STORAGE) || resource.starts_with(HUGE_PAGES)
}

/// Whether kube-scheduler counts the resource against a node's total.
fn is_counted(resource: &str) -> bool {
    resource == CPU || is_in_bytes(resource) || resource.contains('/')
}

/// Whether a container's request for the resource must be as large as its limit.
pub fn is_request_the_limit(resource: &str) -> bool {
    resource.contains('/') || resource.starts_with(HUGE_PAGES)
}

/// Whether a pod as a whole can request the resource (`spec.resources`).
fn is_of_pods(resource: &str) -> bool {
    matches!(resource, CPU | MEMORY) || resource.starts_with(HUGE_PAGES)
}

/// A node's totals.
pub fn allocatable(node: &Node) -> Totals {
    let totals = node.status.iter().flat_map(|status| &status.allocatable);
    totals
        .flatten()
        .map(|(name, quantity)| (name.clone(), amount(name, &quantity.0)))
        .collect()
}

/// The resources of which less is free than is needed, and how much is needed.
pub fn lacking(needs: &Totals, free: impl Fn(&str) -> i64) -> impl Iterator<Item = (&String, i64)> {
    let needs = needs.iter().map(|(resource, needed)| (resource, *needed));
    needs.filter(move |(resource, needed)| *needed > 0 && free(resource) < *needed)
}

/// The reason for which kube-scheduler refuses a node that lacks this resource, in its words.
pub fn reason(resource: &str) -> String {
    match resource {
        PODS => "Too many pods".to_owned(),
        other => format!("Insufficient {other}"),
    }
}

#[cfg(test)]
mod tests;
