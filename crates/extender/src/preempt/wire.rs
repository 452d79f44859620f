//! The JSON of the preempt verb. Nodes and victims come by uid (`nodeCacheCapable: true`) or as whole pods;
//! the answer is always by uid.

use std::collections::BTreeMap;

use gpushare_core::PodUid;
use gpushare_kube::slim;
use serde::{Deserialize, Serialize};

use crate::wire::{BodyError, checked_name, json};

/// What kube-scheduler would evict, by node.
#[derive(Debug)]
pub(super) struct PreemptionArgs {
    pub(super) pod: slim::Pod,
    pub(super) nodes: BTreeMap<String, Offer>,
}

/// The pods that kube-scheduler would evict from one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) victims: Vec<PodUid>,
    pub(super) violations: i64,
}

#[derive(Deserialize)]
#[serde(
    rename_all = "PascalCase",
    expecting = "an object with Pod and NodeNameToMetaVictims or NodeNameToVictims"
)]
struct RawArgs {
    #[serde(alias = "pod")]
    pod: Option<slim::Pod>,
    #[serde(alias = "nodeNameToVictims")]
    node_name_to_victims: Option<BTreeMap<String, Option<RawVictims<WholePod>>>>,
    #[serde(alias = "nodeNameToMetaVictims")]
    node_name_to_meta_victims: Option<BTreeMap<String, Option<RawVictims<MetaPod>>>>,
}

#[derive(Deserialize)]
struct RawVictims<P> {
    #[serde(rename = "Pods", alias = "pods", default = "Option::default")]
    pods: Option<Vec<P>>,
    #[serde(rename = "NumPDBViolations", alias = "numPDBViolations", default)]
    violations: i64,
}

#[derive(Deserialize)]
struct MetaPod {
    #[serde(rename = "UID", alias = "uid", default)]
    uid: String,
}

#[derive(Deserialize)]
struct WholePod {
    #[serde(default)]
    metadata: WholeMetadata,
}

#[derive(Default, Deserialize)]
struct WholeMetadata {
    #[serde(default)]
    uid: String,
}

impl PreemptionArgs {
    pub(super) fn parse(body: &[u8]) -> Result<Self, BodyError> {
        let raw: RawArgs = json("ExtenderPreemptionArgs", body)?;
        let pod = raw.pod.ok_or(BodyError::Missing("Pod"))?;
        if pod.metadata.uid.as_deref().unwrap_or_default().is_empty() {
            return Err(BodyError::Missing("Pod.metadata.uid"));
        }
        // Pod and namespace become part of a URL.
        for (field, value) in [
            ("Pod.metadata.name", &pod.metadata.name),
            ("Pod.metadata.namespace", &pod.metadata.namespace),
        ] {
            checked_name(field, value.clone().unwrap_or_default())?;
        }
        let missing = BodyError::Missing("NodeNameToMetaVictims or NodeNameToVictims");
        let nodes = match (raw.node_name_to_meta_victims, raw.node_name_to_victims) {
            (Some(nodes), _) => offers(nodes, |pod| pod.uid),
            (None, Some(nodes)) => offers(nodes, |pod| pod.metadata.uid),
            (None, None) => return Err(missing),
        };
        Ok(Self { pod, nodes })
    }
}

fn offers<P>(
    nodes: BTreeMap<String, Option<RawVictims<P>>>,
    uid: impl Fn(P) -> String,
) -> BTreeMap<String, Offer> {
    let offer = |victims: RawVictims<P>| Offer {
        violations: victims.violations,
        victims: victims
            .pods
            .into_iter()
            .flatten()
            .map(|pod| PodUid::new(uid(pod)))
            .collect(),
    };
    nodes
        .into_iter()
        .map(|(name, victims)| (name, victims.map(offer).unwrap_or_default()))
        .collect()
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PreemptionResult {
    pub(super) node_name_to_meta_victims: BTreeMap<String, MetaVictims>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct MetaVictims {
    #[serde(rename = "Pods")]
    pods: Vec<Victim>,
    #[serde(rename = "NumPDBViolations")]
    violations: i64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Victim {
    #[serde(rename = "UID")]
    uid: PodUid,
}

impl PreemptionResult {
    /// The node with its victims, or no node if there are none: kube-scheduler treats a node without victims
    /// as an error.
    pub(super) fn on(node: &str, victims: Vec<PodUid>) -> Self {
        let mut result = Self::default();
        result.add(node, victims, 0);
        result
    }

    pub(super) fn add(&mut self, node: &str, victims: Vec<PodUid>, violations: i64) {
        if victims.is_empty() {
            return;
        }
        let pods = victims.into_iter().map(|uid| Victim { uid }).collect();
        let victims = MetaVictims { pods, violations };
        self.node_name_to_meta_victims
            .insert(node.to_owned(), victims);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(body: &str) -> Vec<String> {
        let args = PreemptionArgs::parse(body.as_bytes()).unwrap();
        let victims = args.nodes.into_values().flat_map(|offer| offer.victims);
        victims.map(|uid| uid.to_string()).collect()
    }

    #[test]
    fn victims_are_read_by_uid_or_whole() {
        let meta = r#"{"Pod":{"metadata":{"uid":"u","name":"p","namespace":"n"}},"NodeNameToVictims":null,
            "NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"a"},{"UID":"b"}],"NumPDBViolations":0}}}"#;
        assert_eq!(offered(meta), ["a", "b"]);
        let whole = r#"{"Pod":{"metadata":{"uid":"u","name":"p","namespace":"n"}},"NodeNameToVictims":
            {"n":{"Pods":[{"metadata":{"uid":"a"}}],"NumPDBViolations":0},"m":null}}"#;
        assert_eq!(offered(whole), ["a"]);
    }

    #[test]
    fn a_body_without_pod_or_nodes_says_what_is_missing() {
        for body in [
            r#"{"NodeNameToMetaVictims":{}}"#,
            r#"{"Pod":{"metadata":{"uid":"u","name":"p","namespace":"n"}}}"#,
            r#"{"Pod":{"metadata":{}},"NodeNameToMetaVictims":{}}"#,
        ] {
            let error = PreemptionArgs::parse(body.as_bytes()).unwrap_err();
            assert!(matches!(error, BodyError::Missing(_)), "{body}: {error}");
        }
    }

    #[test]
    fn names_that_could_change_a_url_are_refused() {
        for metadata in [
            r#"{"uid":"u","name":"a/../b","namespace":"n"}"#,
            r#"{"uid":"u","name":"p","namespace":"a?b"}"#,
            r#"{"uid":"u","name":"p"}"#,
        ] {
            let body =
                format!(r#"{{"Pod":{{"metadata":{metadata}}},"NodeNameToMetaVictims":{{}}}}"#);
            let error = PreemptionArgs::parse(body.as_bytes()).unwrap_err();
            assert!(matches!(error, BodyError::Name { .. }), "{body}: {error}");
        }
    }
}
