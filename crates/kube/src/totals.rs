//! What a pod takes of its node's totals, computed as kube-scheduler does: CPU, memory, and extended resources.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_core::request::{Role, peak};
use gpushare_core::{Amounts, Quantity};

use crate::convert::started;
use crate::slim;

/// By resource name: CPU in thousandths, memory in bytes, all others as counts.
pub type Totals = BTreeMap<String, i64>;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";

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
        MEMORY if amount % MIB == 0 => format!("{}Mi", amount / MIB),
        _ => amount.to_string(),
    }
}

/// Whether the scheduler counts the resource against a node's total, and this module knows how.
fn is_counted(resource: &str) -> bool {
    matches!(resource, CPU | MEMORY) || resource.contains('/')
}

/// The most that the pod takes at any one time, including its place among the node's pods.
pub fn needs(spec: &slim::PodSpec) -> Totals {
    let containers = || started(&spec.init_containers, &spec.containers);
    let mut names: BTreeSet<&str> = containers()
        .flat_map(|(_, container, _)| container.resources.limits.keys())
        .map(String::as_str)
        .filter(|name| is_counted(name))
        .collect();
    names.extend([CPU, MEMORY]);
    let of = |name: &str| {
        let held = containers().map(|(_, container, role)| {
            let amount = of_container(&container.resources, name);
            (role, Amounts::of(0, amount.unsigned_abs()))
        });
        let most = peak(held.collect::<Vec<(Role, Amounts)>>().into_iter()).get(0);
        let beside = overhead(spec, name);
        i64::try_from(most)
            .unwrap_or(i64::MAX)
            .saturating_add(beside)
    };
    let mut needs: Totals = names
        .into_iter()
        .map(|name| (name.to_owned(), of(name)))
        .collect();
    needs.insert(PODS.to_owned(), 1);
    needs
}

/// A missing request is as large as the limit.
fn of_container(resources: &slim::Resources, name: &str) -> i64 {
    let (cpu, memory) = resources.requests.text();
    let requested = match name {
        CPU => cpu,
        MEMORY => memory,
        _ => None,
    };
    let limit = || resources.limits.get(name).map(|limit| limit.0.as_str());
    requested
        .or_else(limit)
        .map_or(0, |text| amount(name, text))
}

fn overhead(spec: &slim::PodSpec, name: &str) -> i64 {
    let (cpu, memory) = spec.overhead.text();
    let text = match name {
        CPU => cpu,
        MEMORY => memory,
        _ => None,
    };
    text.map_or(0, |text| amount(name, text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_the_peak_of_its_containers_of_every_resource() {
        let pod: slim::Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [{"name": "i", "resources": {"limits": {"gpushare.io/gpu": 3}}}],
            "containers": [
                {"name": "a", "resources": {
                    "requests": {"cpu": "1500m"},
                    "limits": {"cpu": 4, "memory": "1Gi", "gpushare.io/gpu": 1, "ephemeral-storage": "1Gi"}}},
                {"name": "b", "resources": {"limits": {"cpu": "500m", "gpushare.io/gpu": 1}}},
            ],
            "overhead": {"cpu": "10m"},
        }}))
        .unwrap();
        let expected = [
            ("cpu", 2_010),
            ("gpushare.io/gpu", 3),
            ("memory", 1 << 30),
            ("pods", 1),
        ];
        let expected: Totals = expected.map(|(name, n)| (name.to_owned(), n)).into();
        assert_eq!(needs(&pod.spec), expected);
    }

    #[test]
    fn amounts_read_back_as_they_are_written() {
        for (resource, written, counted) in [
            (CPU, "1500m", 1_500),
            (CPU, "2", 2_000),
            (MEMORY, "8192Mi", 8 << 30),
            ("gpushare.io/gpu-mem", "3072", 3_072),
        ] {
            assert_eq!(amount(resource, written), counted);
            assert_eq!(text(resource, counted), written);
        }
    }
}
