//! What users may leave out: the request as it will be once it is filled in, and the patch that does so.
//!
//! The validator judges the filled request, so nobody is refused for something that we would have filled in.

use std::collections::BTreeMap;

use gpushare_core::dialect::Dialects;
use gpushare_core::request::Role;
use gpushare_core::validate::{ContainerView, ONE_CARD, PodView, left_out};
use gpushare_kube::admission::manifest::{Container, ContainerEntry, Manifest, Resources};
use gpushare_kube::slim::QuantityText;
use serde_json::{Map, Value, json};

use super::patch::Patch;

type Quantities = BTreeMap<String, QuantityText>;

/// What is added to one container.
#[derive(Debug)]
struct Additions<'a> {
    limits: Vec<(&'a str, &'a str)>,
    requests: Vec<(&'a str, &'a str)>,
}

/// The pod as the validator sees it, everything filled in.
pub(super) fn view<'a>(dialects: &'a Dialects, pod: &'a Manifest) -> PodView<'a> {
    let annotations = pod.metadata.annotations.iter();
    PodView {
        containers: pod
            .containers()
            .map(|entry| {
                let mut view = written(dialects, entry);
                view.limits.extend(counts(dialects, &view));
                view
            })
            .collect(),
        annotations: annotations
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect(),
    }
}

/// Writes what is left out into the patch.
pub(super) fn fill(dialects: &Dialects, pod: &Manifest, patch: &mut Patch) {
    for entry in pod.containers() {
        // The API server accepts no resources in ephemeral containers, and the validator has already refused devices.
        if entry.role != Role::Ephemeral {
            write(entry, &additions(dialects, entry), patch);
        }
    }
}

/// A container's limits. What it only requests counts as a limit too: for a device both are always equal.
fn written<'a>(dialects: &'a Dialects, entry: ContainerEntry<'a>) -> ContainerView<'a> {
    let limits = of(entry.container, |resources| resources.limits.as_ref());
    ContainerView {
        name: &entry.container.name,
        role: entry.role,
        index: entry.index,
        limits: limits
            .chain(only_requested(dialects, entry.container))
            .collect(),
    }
}

/// The counts that the container left out, as resources.
fn counts<'a>(dialects: &'a Dialects, view: &ContainerView<'_>) -> Vec<(&'a str, &'a str)> {
    let names = left_out(dialects, view);
    names.map(|name| (name.as_ref(), ONE_CARD)).collect()
}

fn only_requested<'a>(
    dialects: &'a Dialects,
    container: &'a Container,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let requests = of(container, |resources| resources.requests.as_ref());
    requests.filter(move |(name, _)| {
        let ours = dialects.resources().any(|resource| **resource == **name);
        let mut limits = of(container, |resources| resources.limits.as_ref());
        ours && !limits.any(|(limit, _)| limit == *name)
    })
}

fn of(
    container: &Container,
    list: fn(&Resources) -> Option<&Quantities>,
) -> impl Iterator<Item = (&str, &str)> {
    let quantities = container.resources.as_ref().and_then(list);
    quantities
        .into_iter()
        .flatten()
        .map(|(name, quantity)| (name.as_str(), quantity.0.as_str()))
}

fn additions<'a>(dialects: &'a Dialects, entry: ContainerEntry<'a>) -> Additions<'a> {
    let requests = counts(dialects, &written(dialects, entry));
    let limits = only_requested(dialects, entry.container).chain(requests.iter().copied());
    Additions {
        limits: limits.collect(),
        requests,
    }
}

fn write(entry: ContainerEntry<'_>, additions: &Additions<'_>, patch: &mut Patch) {
    let Additions { limits, requests } = additions;
    let index = entry.index.to_string();
    let base = ["spec", entry.list(), &index, "resources"];
    let Some(resources) = &entry.container.resources else {
        if !limits.is_empty() {
            let resources = json!({"limits": object(limits), "requests": object(requests)});
            patch.add(base, resources);
        }
        return;
    };
    for (name, present, added) in [
        ("limits", resources.limits.is_some(), limits),
        ("requests", resources.requests.is_some(), requests),
    ] {
        let list = base.into_iter().chain([name]);
        if added.is_empty() {
            continue;
        }
        if present {
            for (resource, amount) in added {
                patch.add(list.clone().chain([*resource]), json!(amount));
            }
        } else {
            patch.add(list, object(added));
        }
    }
}

fn object(entries: &[(&str, &str)]) -> Value {
    let entries = entries.iter();
    let map: Map<String, Value> = entries
        .map(|(name, amount)| ((*name).to_owned(), json!(amount)))
        .collect();
    Value::Object(map)
}
