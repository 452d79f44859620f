//! A pod as a watch shows it, and how the books apply it.

use gpushare_core::names::event;
use gpushare_core::{Host, NodeName, PodUid};
use gpushare_kube::PodRef;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::notice::{Notice, Severity};

use crate::Books;

/// A pod as a watch shows it. Most pods of a cluster are not ours. Of those, only the uid and what they
/// take of their node are kept.
#[derive(Debug)]
pub enum PodEvent {
    Ours(PodFacts),
    /// A pod that waits for a node with an invalid request.
    Invalid(Notice),
    /// Any other pod, with what it takes of its node if it runs on one.
    Other(PodUid, Option<(NodeName, Host)>),
}

impl PodEvent {
    pub fn of(facts: PodFacts) -> Self {
        match &facts.ask {
            Ok(Some(_)) if !facts.ended => Self::Ours(facts),
            Err(violations) if !facts.ended && facts.node.is_none() => Self::Invalid(Notice {
                message: violations.to_string(),
                pod: facts.reference(),
                reason: event::INVALID_REQUEST,
                severity: Severity::Warning,
            }),
            _ => {
                let node = facts.node.filter(|_| !facts.ended);
                Self::Other(facts.uid, node.map(|node| (node, facts.host)))
            }
        }
    }

    /// Applies the event. Returns the notice for the pod's owner, if there is one.
    pub fn apply(self, books: &mut Books) -> Option<Notice> {
        match self {
            Self::Ours(facts) => books.apply_pod(facts),
            Self::Invalid(notice) => {
                books.apply_invalid(&notice.pod.uid);
                return Some(notice);
            }
            Self::Other(uid, takes) => books.apply_other(&uid, takes),
        }
        None
    }

    /// Applies a complete list. Returns the pods to be read one by one, and the notices for owners.
    pub fn replace(pods: Vec<Self>, books: &mut Books) -> (Vec<PodRef>, Vec<Notice>) {
        let (mut ours, mut others, mut invalid) = (Vec::new(), Vec::new(), Vec::new());
        for pod in pods {
            match pod {
                Self::Ours(facts) => ours.push(facts),
                Self::Invalid(notice) => invalid.push(notice),
                Self::Other(uid, takes) => {
                    others.extend(takes.map(|(node, host)| (uid, node, host)));
                }
            }
        }
        tracing::info!(pods = ours.len(), "listed the pods that ask for cards");
        let to_read = books.replace_pods(ours, &others);
        for notice in &invalid {
            books.apply_invalid(&notice.pod.uid);
        }
        (to_read, invalid)
    }

    pub fn uid(&self) -> &PodUid {
        match self {
            Self::Ours(PodFacts { uid, .. })
            | Self::Invalid(Notice {
                pod: PodRef { uid, .. },
                ..
            })
            | Self::Other(uid, _) => uid,
        }
    }
}
