//! Changes to a pod's request: correct mistakes, and ask for less where less would fit.
//!
//! This module makes candidates; the core's validator and search decide whether they work.

use gpushare_core::Quantity;
use gpushare_core::dialect::{Dialect, Dialects, Scale};
use gpushare_core::validate::{ONE_CARD, Violation};
use serde_json::{Value, json};

use super::change::{Act, Change, patched, remove, set};
use super::pod::Pod;

/// Lists of containers in a pod's spec.
const LISTS: [&str; 2] = ["initContainers", "containers"];
const BYTES_IN_MIB: i64 = 1 << 20;

/// The position of a container in the pod.
#[derive(Clone, Debug)]
struct Place {
    list: &'static str,
    index: String,
}

fn places(pod: &Pod) -> impl Iterator<Item = (Place, &Value)> {
    LISTS.into_iter().flat_map(|list| {
        let all = pod.object.get("spec").and_then(|spec| spec.get(list));
        let all = all.and_then(Value::as_array).into_iter().flatten();
        all.enumerate().map(move |(index, container)| {
            let index = index.to_string();
            (Place { list, index }, container)
        })
    })
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<(Place, &'a Value)> {
    places(pod).find(|(_, container)| container.get("name").is_some_and(|found| found == name))
}

impl Place {
    fn path<'a>(&'a self, kind: &'a str, resource: &'a str) -> [&'a str; 6] {
        ["spec", self.list, &self.index, "resources", kind, resource]
    }

    fn field(&self, kind: &str, resource: &str) -> String {
        format!(
            "spec.{}[{}].resources.{kind}[{resource}]",
            self.list, self.index
        )
    }
}

/// Sets a limit, and the request if there is one.
fn set_limit(pod: &Pod, place: &Place, container: &Value, resource: &str, value: &str) -> Change {
    let value_json = json!(value);
    let mut operations = set(&pod.object, &place.path("limits", resource), &value_json);
    let requests = container.pointer("/resources/requests");
    if requests.is_some_and(|requests| requests.get(resource).is_some()) {
        operations.extend(set(
            &pod.object,
            &place.path("requests", resource),
            &value_json,
        ));
    }
    let text = format!("set {} to {value}", place.field("limits", resource));
    Change::of_pod(text, operations)
}

fn remove_limits(pod: &Pod, place: &Place, resources: &[&str]) -> Change {
    let kinds = ["limits", "requests"];
    let operations = resources.iter().flat_map(|resource| {
        let paths = kinds.map(|kind| remove(&pod.object, &place.path(kind, resource)));
        paths.into_iter().flatten()
    });
    let fields: Vec<String> = resources
        .iter()
        .map(|resource| place.field("limits", resource))
        .collect();
    let text = format!("remove {}", fields.join(" and "));
    Change::of_pod(text, operations.collect())
}

pub(super) fn remove_annotation(pod: &Pod, name: &str) -> Option<Change> {
    let operations = remove(&pod.object, &["metadata", "annotations", name]);
    let text = format!("remove the annotation {name}");
    (!operations.is_empty()).then(|| Change::of_pod(text, operations))
}

/// What the user may have meant where the validator found a mistake.
pub(super) fn corrections(pod: &Pod, dialects: &Dialects, mistake: &Violation) -> Vec<Change> {
    let Some(name) = &mistake.container else {
        return remove_annotation(pod, &mistake.field).into_iter().collect();
    };
    let Some((place, container)) = container(pod, name) else {
        return Vec::new();
    };
    let field = &*mistake.field;
    let dialect = dialects
        .dialects
        .iter()
        .find(|dialect| dialect.resources().any(|resource| **resource == *field));
    let Some(dialect) = dialect else {
        return Vec::new();
    };
    let meant = meant(dialect, field, &mistake.value);
    let mut candidates: Vec<Change> = meant
        .iter()
        .map(|value| set_limit(pod, &place, container, field, value))
        .collect();
    // If a corrected value can be suggested, do not suggest removing it.
    if !candidates.is_empty() && !mistake.value.is_empty() {
        return candidates;
    }
    let limits = container.pointer("/resources/limits");
    let written = |resource: &&str| limits.is_some_and(|limits| limits.get(resource).is_some());
    let all: Vec<&str> = dialect
        .resources()
        .map(|name| &**name)
        .filter(written)
        .collect();
    if all.contains(&field) {
        candidates.push(remove_limits(pod, &place, &[field]));
    }
    if all.len() > 1 {
        candidates.push(remove_limits(pod, &place, &all));
    }
    candidates
}

/// Values that the user may have meant for a field.
fn meant(dialect: &Dialect, field: &str, value: &str) -> Vec<String> {
    if dialect
        .count
        .as_ref()
        .is_some_and(|count| *count.resource == *field)
    {
        return vec![ONE_CARD.to_owned()];
    }
    let part = dialect.parts.iter().find(|part| *part.resource == *field);
    if value.is_empty() {
        // The intended amount is unknown; suggest a small share to start with.
        return part
            .map(|part| a_little(&part.scale).to_string())
            .into_iter()
            .collect();
    }
    let quantity = Quantity::parse(value).ok();
    let rounded = quantity.map(|quantity| quantity.rounded_up(1));
    let mut meant = Vec::new();
    match part.map(|part| &part.scale) {
        Some(Scale::Units { each, most, .. }) if *most > 1_000 => {
            // The value was written in bytes, such as 4Gi.
            let unit = i64::try_from(*each)
                .unwrap_or(1)
                .saturating_mul(BYTES_IN_MIB);
            let bytes = rounded.filter(|bytes| *bytes >= unit);
            meant.extend(bytes.map(|bytes| up(bytes, unit)));
        }
        Some(Scale::Units { most, .. }) => {
            let most = i64::try_from(*most).unwrap_or(100);
            meant.extend(rounded.filter(|number| *number > most).map(|_| most));
        }
        Some(Scale::Percent) => meant.extend(rounded.filter(|number| *number > 100).map(|_| 100)),
        Some(Scale::Hundreds) => {
            meant.extend(
                rounded
                    .filter(|number| *number > 100)
                    .map(|number| up(number, 100) * 100),
            );
        }
        None => {}
    }
    // A fraction is rounded up.
    meant.extend(rounded.filter(|number| *number > 0 && value.contains(['.', 'm'])));
    meant.into_iter().map(|number| number.to_string()).collect()
}

fn a_little(scale: &Scale) -> u64 {
    match scale {
        Scale::Units { each, most, .. } if *most > 1_000 => (1_024 / (*each).max(1)).max(1),
        Scale::Units { .. } | Scale::Percent | Scale::Hundreds => 10,
    }
}

/// Divided and rounded up.
fn up(number: i64, by: i64) -> i64 {
    number.saturating_add(by - 1) / by.max(1)
}

/// For each resource with which the pod asks for cards: the largest amount for which `does` still holds.
pub(super) fn less(pod: &Pod, dialects: &Dialects, does: impl Fn(&Pod) -> bool) -> Vec<Change> {
    let mut found = Vec::new();
    for (place, container) in places(pod) {
        let limits = container
            .pointer("/resources/limits")
            .and_then(Value::as_object);
        let limits: Vec<(&String, &Value)> = limits.into_iter().flatten().collect();
        for dialect in &dialects.dialects {
            let parts = dialect.parts.iter().map(|part| &part.resource);
            let count = dialect.count.iter().map(|count| &count.resource);
            for resource in parts.chain(count) {
                let written = limits.iter().find(|(name, _)| ***name == **resource);
                let Some(now) = written.and_then(|(_, value)| number(value)) else {
                    continue;
                };
                let set =
                    |value: i64| set_limit(pod, &place, container, resource, &value.to_string());
                found.extend(most(pod, dialects, now, set, &does));
            }
        }
        found.extend(part_of_whole(
            pod, dialects, &place, container, &limits, &does,
        ));
    }
    found
}

/// Suggests a part of a card to a container that asks for whole cards.
fn part_of_whole(
    pod: &Pod,
    dialects: &Dialects,
    place: &Place,
    container: &Value,
    limits: &[(&String, &Value)],
    does: &impl Fn(&Pod) -> bool,
) -> Option<Change> {
    let written = |name: &str| limits.iter().any(|(written, _)| *written == name);
    let dialect = dialects.dialects.iter().find(|dialect| {
        let whole = dialect.count.as_ref().filter(|count| count.whole_alone);
        let mut parts = dialect.parts.iter();
        whole.is_some_and(|count| written(&count.resource))
            && !parts.any(|part| written(&part.resource))
    })?;
    let part = dialect.parts.first()?;
    let Scale::Units {
        most: largest,
        each,
        ..
    } = &part.scale
    else {
        return None;
    };
    let largest = i64::try_from(largest / (*each).max(1)).unwrap_or(i64::MAX);
    let set = |value: i64| set_limit(pod, place, container, &part.resource, &value.to_string());
    most(pod, dialects, largest, set, does)
}

/// The change to the largest value below `now` that fits, by binary search: a larger value never fits more easily.
fn most(
    pod: &Pod,
    dialects: &Dialects,
    now: i64,
    set: impl Fn(i64) -> Change,
    does: &impl Fn(&Pod) -> bool,
) -> Option<Change> {
    let tried = |value: i64| {
        let change = set(value);
        let Act::Pod(operations) = &change.act else {
            return None;
        };
        let object = patched(&pod.object, operations).ok()?;
        let changed = Pod::read(object, dialects).ok()?;
        does(&changed).then_some(change)
    };
    let mut best = tried(1)?;
    let (mut does, mut too_much) = (1, now);
    while too_much - does > 1 {
        let middle = does + (too_much - does) / 2;
        match tried(middle) {
            Some(change) => (does, best) = (middle, change),
            None => too_much = middle,
        }
    }
    Some(best)
}

/// Lowers a container's request for a resource by this amount.
pub(super) fn lower(pod: &Pod, resource: &str, by: i64) -> Vec<Change> {
    use gpushare_kube::totals::{amount, is_request_the_limit, text};
    let mut found = Vec::new();
    for (place, container) in places(pod) {
        let of = |kind: &str| {
            container
                .pointer(&format!("/resources/{kind}"))?
                .get(resource)
        };
        let Some(written) = of("requests").or_else(|| of("limits")) else {
            continue;
        };
        let written = written
            .as_str()
            .map_or_else(|| written.to_string(), str::to_owned);
        let left = amount(resource, &written).saturating_sub(by);
        if left <= 0 {
            continue;
        }
        let value = text(resource, left);
        if is_request_the_limit(resource) {
            found.push(set_limit(pod, &place, container, resource, &value));
            continue;
        }
        let text = format!("set {} to {value}", place.field("requests", resource));
        let path = place.path("requests", resource);
        found.push(Change::of_pod(text, set(&pod.object, &path, &json!(value))));
    }
    found
}

fn number(value: &Value) -> Option<i64> {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    Some(Quantity::parse(&text).ok()?.rounded_up(1))
}
