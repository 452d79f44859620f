//! Whether a pod fits on a node, judged by what a scheduler can see: resources, taints, selectors. Pure.

use std::collections::BTreeMap;

use gpushare_core::Quantity;
use k8s_openapi::api::core::v1::{
    Container, Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use kube::ResourceExt;

/// Amounts by resource, in thousandths so that CPUs are exact.
pub(super) type Amounts = BTreeMap<String, i64>;

const THOUSANDTHS: u64 = 1000;

/// Why a pod does not fit on a node, and whether evictions could change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) reason: String,
    pub(super) evictable: bool,
}

/// A node and what is taken on it.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) node: std::sync::Arc<Node>,
    pub(super) room: Amounts,
    pub(super) taken: Amounts,
}

fn amounts<'a>(list: impl IntoIterator<Item = (&'a String, &'a Text)>) -> Amounts {
    let read = |text: &Text| Quantity::parse(&text.0).map_or(0, |q| q.rounded_up(THOUSANDTHS));
    list.into_iter()
        .map(|(name, text)| (name.clone(), read(text)))
        .collect()
}

pub(super) fn allocatable(node: &Node) -> Amounts {
    let status = node.status.as_ref();
    amounts(
        status
            .and_then(|status| status.allocatable.as_ref())
            .into_iter()
            .flatten(),
    )
}

pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.saturating_add(*amount);
    }
}

pub(super) fn take(sum: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        if let Some(entry) = sum.get_mut(name) {
            *entry = entry.saturating_sub(*amount).max(0);
        }
    }
}

/// What a pod takes at its peak: its containers and sidecars together, or an init container beside the sidecars that
/// run before it, whichever is more.
pub(super) fn requests(pod: &Pod) -> Amounts {
    let asked = |container: &Container| {
        let resources = container.resources.as_ref();
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        amounts(requests.into_iter().flatten())
    };
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    let spec = pod.spec.as_ref();
    for container in spec
        .and_then(|spec| spec.init_containers.as_ref())
        .into_iter()
        .flatten()
    {
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &asked(container));
            raise(&mut peak, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, &asked(container));
            raise(&mut peak, &now);
        }
    }
    let mut together = sidecars;
    for container in spec.into_iter().flat_map(|spec| &spec.containers) {
        add(&mut together, &asked(container));
    }
    raise(&mut peak, &together);
    peak.insert("pods".to_owned(), 1000);
    peak
}

fn raise(peak: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let entry = peak.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

/// The first reason why the pod does not fit.
pub(super) fn obstacle(pod: &Pod, asked: &Amounts, host: &Host) -> Option<Obstacle> {
    let for_good = |reason: String| Obstacle {
        reason,
        evictable: false,
    };
    let spec = pod.spec.as_ref()?;
    let node = &*host.node;
    let node_spec = node.spec.as_ref();
    let closed = node_spec.and_then(|spec| spec.unschedulable) == Some(true);
    if closed && !tolerates(spec, &unschedulable_taint()) {
        return Some(for_good("node(s) were unschedulable".to_owned()));
    }
    let taints = node_spec.and_then(|spec| spec.taints.as_ref());
    let repelling = taints.into_iter().flatten().find(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && !tolerates(spec, taint)
    });
    if let Some(taint) = repelling {
        let value = taint.value.as_deref().unwrap_or_default();
        let reason = format!("node(s) had untolerated taint {{{}: {value}}}", taint.key);
        return Some(for_good(reason));
    }
    if !selected(spec, node) {
        let reason = "node(s) didn't match Pod's node affinity/selector";
        return Some(for_good(reason.to_owned()));
    }
    shortage(asked, host)
}

fn shortage(asked: &Amounts, host: &Host) -> Option<Obstacle> {
    let mut evictable = true;
    let mut short = Vec::new();
    for (name, amount) in asked.iter().filter(|(_, amount)| **amount > 0) {
        let room = host.room.get(name).copied().unwrap_or(0);
        let taken = host.taken.get(name).copied().unwrap_or(0);
        if taken.saturating_add(*amount) > room {
            evictable &= *amount <= room;
            short.push(match name.as_str() {
                "pods" => "Too many pods".to_owned(),
                name => format!("Insufficient {name}"),
            });
        }
    }
    (!short.is_empty()).then(|| Obstacle {
        reason: short.join(", "),
        evictable,
    })
}

fn unschedulable_taint() -> Taint {
    Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
}

fn tolerates(spec: &PodSpec, taint: &Taint) -> bool {
    let fits = |toleration: &Toleration| {
        let same = |own: &Option<String>, other: &str| {
            own.as_deref()
                .is_none_or(|own| own.is_empty() || own == other)
        };
        let exists = toleration.operator.as_deref() == Some("Exists");
        let value = taint.value.as_deref().unwrap_or_default();
        same(&toleration.effect, &taint.effect)
            && same(&toleration.key, &taint.key)
            && (exists || toleration.value.as_deref().unwrap_or_default() == value)
    };
    spec.tolerations.iter().flatten().any(fits)
}

fn selected(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.labels();
    let by_labels = spec
        .node_selector
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref();
    let required = affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|nodes| {
            nodes
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    let by_affinity = required.is_none_or(|selector| {
        let mut terms = selector.node_selector_terms.iter();
        terms.any(|term| term_matches(term, node))
    });
    by_labels && by_affinity
}

fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = node.labels();
    let mut expressions = term.match_expressions.iter().flatten();
    let mut fields = term.match_fields.iter().flatten();
    let any = term.match_expressions.is_some() || term.match_fields.is_some();
    let name = node.name_any();
    any && expressions.all(|rule| holds(rule, labels.get(&rule.key).map(String::as_str)))
        && fields.all(|rule| holds(rule, (rule.key == "metadata.name").then_some(name.as_str())))
}

fn holds(rule: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = || rule.values.iter().flatten();
    let among = |found: &str| values().any(|value| value == found);
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = |test: fn(i64, i64) -> bool| {
        let wanted = values().next().and_then(|value| number(value));
        let found = found.and_then(number);
        matches!((found, wanted), (Some(found), Some(wanted)) if test(found, wanted))
    };
    match rule.operator.as_str() {
        "In" => found.is_some_and(among),
        "NotIn" => found.is_none_or(|found| !among(found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compared(|found, wanted| found > wanted),
        "Lt" => compared(|found, wanted| found < wanted),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
