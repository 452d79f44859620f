//! Pods that concern cards: those whose record says that they hold some, and those that wait for some.

use gpushare_core::ledger::BoundPod;
use gpushare_core::{NodeName, Placement, PodAsk, PodUid};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde::Serialize;

use super::{Model, PODS, unlisted};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) about: About,
    pub(crate) allocation: AllocationState,
}

/// What every detailed view of a pod shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct About {
    #[serde(flatten)]
    pub(crate) title: PodName,
    pub(crate) priority: i32,
    /// In seconds since 1970.
    pub(crate) created: i64,
    running: bool,
    deleting: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct PodName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Whether a pod holds cards or waits for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AllocationState {
    /// Its record is valid.
    Placed {
        node: NodeName,
        ask: PodAsk,
        placement: Placement,
    },
    /// It is on a node, but its record is missing, or its record or request is not accepted.
    Unproven { node: NodeName, why: String },
    Waiting {
        ask: PodAsk,
        /// It has a scheduling gate, so the scheduler does not consider it yet.
        gated: bool,
        /// Where room is being made for it.
        claim: Option<(NodeName, Placement)>,
    },
    /// Its request cannot be understood, and it has no node.
    Invalid { why: String },
}

impl Pod {
    pub(crate) fn title(&self) -> &PodName {
        &self.about.title
    }

    pub(crate) fn node(&self) -> Option<&NodeName> {
        match &self.allocation {
            AllocationState::Placed { node, .. } | AllocationState::Unproven { node, .. } => {
                Some(node)
            }
            AllocationState::Waiting { .. } | AllocationState::Invalid { .. } => None,
        }
    }

    pub(crate) fn waits(&self) -> bool {
        self.node().is_none()
    }
}

impl Model {
    /// What is kept of a pod; `None` if it does not concern cards, or no longer does.
    pub(crate) fn see_pod(&self, pod: &slim::Pod) -> (PodUid, Option<Pod>) {
        let facts = PodFacts::new(pod, &self.dialects);
        let uid = facts.uid.clone();
        if facts.ended {
            return (uid, None);
        }
        let Some(allocation) = self.allocation(&facts) else {
            return (uid, None);
        };
        let about = About {
            title: PodName {
                namespace: facts.namespace,
                name: facts.name,
            },
            priority: facts.rank.priority,
            created: facts.created,
            running: facts.preemption.running,
            deleting: facts.deleting,
        };
        (uid, Some(Pod { about, allocation }))
    }

    fn allocation(&self, facts: &PodFacts) -> Option<AllocationState> {
        let classes = &self.dialects.classes;
        let ask = match &facts.ask {
            Ok(None) => return None,
            Ok(Some(ask)) => ask,
            Err(violations) => {
                let why = violations.to_string();
                return Some(match &facts.node {
                    Some(node) => AllocationState::Unproven {
                        node: node.clone(),
                        why,
                    },
                    None => AllocationState::Invalid { why },
                });
            }
        };
        let Some(node) = facts.node.clone() else {
            let claim = facts.claim(classes).and_then(Result::ok);
            return Some(AllocationState::Waiting {
                ask: ask.clone(),
                gated: facts.gated,
                claim: claim.map(|(record, placement)| (record.node().clone(), placement)),
            });
        };
        Some(match facts.bound(classes) {
            Some(Ok(BoundPod {
                node,
                ask,
                placement,
                ..
            })) => AllocationState::Placed {
                node,
                ask,
                placement,
            },
            Some(Err(error)) => AllocationState::Unproven {
                node,
                why: error.to_string(),
            },
            None => AllocationState::Unproven {
                node,
                why: "it has no record of its cards: gpushare did not bind it".to_owned(),
            },
        })
    }

    pub(crate) fn set_pod(&mut self, (uid, pod): (PodUid, Option<Pod>)) {
        let Some(pod) = pod else {
            self.remove_pod(&uid);
            return;
        };
        if self.pods.get(&uid) == Some(&pod) {
            return;
        }
        self.remove_pod(&uid);
        match &pod.allocation {
            AllocationState::Placed {
                node,
                ask,
                placement,
            } => self.ledger.confirm(BoundPod {
                pod: uid.clone(),
                node: node.clone(),
                ask: ask.clone(),
                placement: placement.clone(),
            }),
            AllocationState::Waiting {
                ask,
                claim: Some((node, placement)),
                ..
            } => self.ledger.claim(&uid, node, ask, placement.clone()),
            _ => {}
        }
        self.note_pod(&pod);
        self.pods.insert(uid, pod);
    }

    pub(crate) fn remove_pod(&mut self, uid: &PodUid) {
        let Some(pod) = self.pods.remove(uid) else {
            return;
        };
        self.ledger.release(uid);
        self.ledger.unclaim(uid);
        self.note_pod(&pod);
    }

    pub(crate) fn replace_pods(&mut self, seen: Vec<(PodUid, Option<Pod>)>) {
        for uid in unlisted(&self.pods, &seen) {
            self.remove_pod(&uid);
        }
        for pod in seen {
            self.set_pod(pod);
        }
        self.missing.remove(PODS);
    }

    /// Any change on a card can change why other pods wait.
    fn note_pod(&mut self, pod: &Pod) {
        self.changes.pending = true;
        self.changes.nodes.extend(pod.node().cloned());
        if let AllocationState::Waiting {
            claim: Some((node, _)),
            ..
        } = &pod.allocation
        {
            self.changes.nodes.insert(node.clone());
        }
    }
}
