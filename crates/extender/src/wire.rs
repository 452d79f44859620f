//! The JSON that kube-scheduler and the extender exchange. Keys are Go field names; since Go reads keys
//! without regard to case, the usual spellings are accepted.
//!
//! Only what is used is parsed. Whole nodes (`nodeCacheCapable: false`) are kept as the JSON text in which
//! they came.

use std::borrow::Cow;
use std::collections::HashSet;

use foldhash::fast::RandomState;
use gpushare_core::{NodeName, PodUid};
use gpushare_kube::slim;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

/// This many scans of the names cost less than building a set: of 5,000 names, 4 microseconds each on average against 50.
const SCANS: usize = 2;

/// The arguments of filter and prioritize.
#[derive(Debug)]
pub(crate) struct Args<'a> {
    pub pod: slim::Pod,
    pub candidates: Candidates<'a>,
}

/// The nodes in question, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    names: Vec<Name<'a>>,
    /// The nodes themselves, where they came whole.
    whole: Option<Vec<&'a RawValue>>,
}

/// A name, borrowed from the body unless JSON had to escape it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Candidates<'a> {
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &*name.0)
    }

    pub(crate) fn all_names(&self) -> &[Name<'a>] {
        &self.names
    }

    pub(crate) fn whole(&self) -> Option<&[&'a RawValue]> {
        self.whole.as_deref()
    }

    /// Returns a test whether a name is among them. It builds a set only when it is called often, because most callers
    /// ask about few names.
    pub(crate) fn membership(&self) -> impl FnMut(&str) -> bool {
        let mut asked = 0;
        let mut all: Option<HashSet<&str, RandomState>> = None;
        move |wanted| {
            asked += 1;
            if asked <= SCANS {
                return self.names().any(|name| name == wanted);
            }
            all.get_or_insert_with(|| self.names().collect())
                .contains(wanted)
        }
    }

    /// Their approximate size when written.
    pub(crate) fn written_size(&self) -> usize {
        let names: usize = self.names().map(|name| name.len() + 3).sum();
        let whole = self.whole.iter().flatten();
        names + whole.map(|node| node.get().len() + 1).sum::<usize>()
    }
}

#[derive(Debug, Error)]
pub(crate) enum BodyError {
    #[error("the body is not the JSON of {expected}: {source}")]
    Json {
        expected: &'static str,
        source: serde_json::Error,
    },
    #[error("the body has no {0}")]
    Missing(&'static str),
    #[error("{field} {value:?} is not a valid name")]
    Name { field: &'static str, value: String },
}

#[derive(Deserialize)]
#[serde(
    rename_all = "PascalCase",
    expecting = "an object with Pod and NodeNames or Nodes"
)]
struct RawArgs<'a> {
    #[serde(alias = "pod")]
    pod: Option<slim::Pod>,
    #[serde(borrow, alias = "nodes")]
    nodes: Option<RawNodeList<'a>>,
    #[serde(borrow, alias = "nodeNames", alias = "nodenames")]
    node_names: Option<Vec<Name<'a>>>,
}

#[derive(Deserialize)]
struct RawNodeList<'a> {
    #[serde(borrow, alias = "Items")]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    metadata: NamedMetadata<'a>,
}

#[derive(Deserialize)]
struct NamedMetadata<'a> {
    #[serde(borrow)]
    name: Name<'a>,
}

impl<'a> Args<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, BodyError> {
        let raw: RawArgs<'a> = json("ExtenderArgs", body)?;
        let pod = raw.pod.ok_or(BodyError::Missing("Pod"))?;
        if pod.metadata.uid.as_deref().unwrap_or_default().is_empty() {
            return Err(BodyError::Missing("Pod.metadata.uid"));
        }
        let candidates = match (raw.node_names, raw.nodes) {
            (Some(names), _) => Candidates { names, whole: None },
            (None, Some(list)) => Candidates::of_whole(list.items.unwrap_or_default())?,
            (None, None) => return Err(BodyError::Missing("NodeNames or Nodes")),
        };
        Ok(Self { pod, candidates })
    }
}

impl<'a> Candidates<'a> {
    fn of_whole(nodes: Vec<&'a RawValue>) -> Result<Self, BodyError> {
        let name = |node: &&'a RawValue| {
            let named: Named<'a> = json("a Node", node.get().as_bytes())?;
            Ok(named.metadata.name)
        };
        Ok(Self {
            names: nodes.iter().map(name).collect::<Result<_, _>>()?,
            whole: Some(nodes),
        })
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct HostPriority<'a> {
    pub host: &'a str,
    pub score: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BindingArgs {
    pub pod: PodUid,
    pub namespace: String,
    pub name: String,
    pub node: NodeName,
}

#[derive(Default, Deserialize)]
#[serde(
    default,
    expecting = "an object with PodUID, PodNamespace, PodName and Node"
)]
struct RawBindingArgs {
    #[serde(rename = "PodName", alias = "podName", alias = "podname")]
    name: String,
    #[serde(
        rename = "PodNamespace",
        alias = "podNamespace",
        alias = "podnamespace"
    )]
    namespace: String,
    #[serde(
        rename = "PodUID",
        alias = "podUID",
        alias = "podUid",
        alias = "poduid"
    )]
    uid: String,
    #[serde(rename = "Node", alias = "node")]
    node: String,
}

impl BindingArgs {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, BodyError> {
        let raw: RawBindingArgs = json("ExtenderBindingArgs", body)?;
        if raw.uid.is_empty() {
            return Err(BodyError::Missing("PodUID"));
        }
        // Pod and namespace become part of a URL.
        Ok(Self {
            pod: PodUid::new(&raw.uid),
            namespace: checked_name("PodNamespace", raw.namespace)?,
            name: checked_name("PodName", raw.name)?,
            node: NodeName::new(checked_name("Node", raw.node)?),
        })
    }
}

/// The answer of bind, and of any request that failed.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ErrorResult {
    pub error: String,
}

pub(super) fn json<'a, T: Deserialize<'a>>(
    expected: &'static str,
    body: &'a [u8],
) -> Result<T, BodyError> {
    serde_json::from_slice(body).map_err(|source| BodyError::Json { expected, source })
}

/// Names of Kubernetes objects are DNS names.
pub(super) fn checked_name(field: &'static str, value: String) -> Result<String, BodyError> {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let valid = value.len() <= 253
        && value
            .bytes()
            .all(|byte| letter(byte) || matches!(byte, b'-' | b'.'))
        && value.bytes().next().is_some_and(letter)
        && value.bytes().last().is_some_and(letter);
    if valid {
        Ok(value)
    } else {
        Err(BodyError::Name { field, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_go_and_in_json_spelling() {
        for body in [
            r#"{"Pod":{"metadata":{"uid":"u"}},"Nodes":null,"NodeNames":["a"]}"#,
            r#"{"pod":{"metadata":{"uid":"u"}},"nodeNames":["a"]}"#,
            r#"{"pod":{"metadata":{"uid":"u"}},"nodes":{"items":[{"metadata":{"name":"a"}}]}}"#,
        ] {
            let args = Args::parse(body.as_bytes()).unwrap();
            assert!(args.candidates.names().eq(["a"]), "{body}");
        }
        let body = r#"{"podName":"p","podNamespace":"ns","podUID":"u","node":"n"}"#;
        assert_eq!(BindingArgs::parse(body.as_bytes()).unwrap().name, "p");
    }

    #[test]
    fn a_name_is_found_among_the_candidates_however_often_is_asked() {
        let body = r#"{"Pod":{"metadata":{"uid":"u"}},"NodeNames":["a","b\u0063"]}"#;
        let args = Args::parse(body.as_bytes()).unwrap();
        let mut is_candidate = args.candidates.membership();
        for _ in 0..=SCANS {
            assert!(is_candidate("a") && is_candidate("bc"));
            assert!(!is_candidate("b") && !is_candidate(""));
        }
    }

    #[test]
    fn names_that_could_change_a_url_are_refused() {
        for name in ["", "..", "a/b", "a?b", "A", "-a", "a%2fb", &"a".repeat(254)] {
            assert!(
                checked_name("PodName", name.to_owned()).is_err(),
                "{name:?}"
            );
        }
        assert!(checked_name("Node", "node-1.example.com".to_owned()).is_ok());
    }
}
