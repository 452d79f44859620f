//! Pods: our reduced type accepts whatever the full one does, and reads the same from it.

use std::collections::BTreeMap;

use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use k8s_openapi::api::core::v1 as full;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Verdict;

/// The object as the full type and ours read it; `None` if ours refuses it. Duplicate keys are resolved first, because
/// an API server sends none.
pub(super) fn both<Full, Slim>(data: &[u8]) -> Option<(Option<Full>, Slim)>
where
    Full: DeserializeOwned,
    Slim: DeserializeOwned,
{
    let value: Value = serde_json::from_slice(data).ok()?;
    let text = value.to_string();
    let full = serde_json::from_str(&text).ok();
    match serde_json::from_str(&text) {
        Ok(slim) => Some((full, slim)),
        Err(error) => {
            assert!(full.is_none(), "only our type refuses it: {error}");
            None
        }
    }
}

pub(super) fn same_metadata(full: &ObjectMeta, slim: &ObjectMeta) {
    let read = |meta: &ObjectMeta| {
        let ours = meta.annotations.iter().flatten();
        let prefixes = ["gpushare.io/", "nvidia.com/"];
        let ours = ours.filter(|(key, _)| prefixes.iter().any(|prefix| key.starts_with(prefix)));
        let ours: BTreeMap<String, String> = ours.map(|(k, v)| (k.clone(), v.clone())).collect();
        (
            meta.name.clone(),
            meta.namespace.clone(),
            meta.uid.clone(),
            meta.resource_version.clone(),
            meta.deletion_timestamp.clone(),
            ours,
        )
    };
    assert_eq!(read(full), read(slim));
}

pub(crate) fn check(data: &[u8]) -> Verdict {
    let Some((full, slim)) = both::<full::Pod, slim::Pod>(data) else {
        return Verdict::Refused;
    };
    let dialects = gpu::read(Reading {
        aliyun: AliyunUnit::GiB,
        hami: true,
    });
    let facts = PodFacts::new(&slim, &dialects);
    // Must not panic, whatever it returns.
    let _bound = facts.bound(&dialects.classes);
    if let Some(full) = full {
        same_pod(&full, &slim);
    }
    Verdict::Accepted
}

fn same_pod(full: &full::Pod, slim: &slim::Pod) {
    same_metadata(&full.metadata, &slim.metadata);
    let phase = full.status.as_ref().and_then(|status| status.phase.clone());
    assert_eq!(phase, slim.status.phase);
    let Some(spec) = &full.spec else {
        assert!(slim.spec.containers.is_empty());
        return;
    };
    assert_eq!(spec.node_name, slim.spec.node_name);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for (full, slim) in [
        (init, &slim.spec.init_containers),
        (&spec.containers, &slim.spec.containers),
    ] {
        let full: Vec<_> = full.iter().map(of_full).collect();
        let slim: Vec<_> = slim.iter().map(of_slim).collect();
        assert_eq!(full, slim);
    }
}

type Read = (String, Option<String>, BTreeMap<String, String>);

fn of_full(container: &full::Container) -> Read {
    let limits = container.resources.iter().flat_map(|all| &all.limits);
    let limits = limits.flatten().map(|(k, v)| (k.clone(), v.0.clone()));
    (
        container.name.clone(),
        container.restart_policy.clone(),
        limits.collect(),
    )
}

fn of_slim(container: &slim::Container) -> Read {
    let limits = container.resources.limits.iter();
    (
        container.name.clone(),
        container.restart_policy.clone(),
        limits.map(|(k, v)| (k.clone(), v.0.clone())).collect(),
    )
}
