//! What the timekeeper knows of the cluster, as the watches last showed it.
//!
//! A broken watch changes nothing: the last state holds until there is a new one. Nothing is decided before everything
//! was listed once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gpushare_core::PodUid;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::labels::Labels;
use gpushare_kube::metering;
use gpushare_ledger::Seconds;

use super::cards::Cards;
use super::kubelets::Kubelets;

/// How many pods are kept of those that were deleted while no replica led. The ledger knows those that matter.
const MOST_GONE: usize = 4096;

#[derive(Debug, Default)]
pub struct View {
    pub budgets: Option<BTreeMap<String, GpuBudget>>,
    /// The labels of each namespace.
    pub namespaces: Option<BTreeMap<String, Labels>>,
    /// The cards of each node that has published some.
    pub(super) nodes: Option<Arc<Cards>>,
    pub(super) kubelets: Arc<Kubelets>,
    /// Pods that ask for devices of ours, or whose object waits for its last charge.
    pub pods: Option<BTreeMap<PodUid, Arc<SeenPod>>>,
    /// Pods whose object is gone, as they were last seen, and when that was noticed.
    pub(super) gone: VecDeque<(Arc<SeenPod>, Seconds)>,
    /// Grows when a budget's terms or a namespace's labels change, and not when a status does.
    pub(super) terms: u64,
}

/// A pod as the API server shows it, and what that means.
#[derive(Debug)]
pub struct SeenPod {
    pub pod: metering::Pod,
    pub facts: PodFacts,
}

impl View {
    /// Whether everything was listed once; otherwise what is missing.
    pub fn ready(&self) -> Result<(), String> {
        let missing = match self {
            Self { budgets: None, .. } => "budgets",
            Self {
                namespaces: None, ..
            } => "namespaces",
            Self { nodes: None, .. } => "nodes",
            Self { pods: None, .. } => "pods",
            _ => return Ok(()),
        };
        Err(format!("the {missing} have not been listed yet"))
    }

    /// Whether the API server shows a Node of this name.
    pub fn shows_node(&self, name: &str) -> bool {
        let nodes = self.nodes.as_ref();
        nodes.is_some_and(|nodes| nodes.contains_key(name))
    }

    pub(super) fn put_pod(&mut self, uid: PodUid, pod: Option<Arc<SeenPod>>) {
        let pods = self.pods.get_or_insert_default();
        match pod {
            Some(pod) => pods.insert(uid, pod),
            // It only concerned us because of our finalizer, which is gone now.
            None => pods.remove(&uid),
        };
    }

    pub(super) fn remove_pod(&mut self, uid: &PodUid, last: Option<Arc<SeenPod>>, now: Seconds) {
        let known = self.pods.get_or_insert_default().remove(uid);
        if let Some(pod) = last.or(known) {
            self.note_gone(pod, now);
        }
    }

    pub(super) fn replace_pods(&mut self, listed: BTreeMap<PodUid, Arc<SeenPod>>, now: Seconds) {
        for (uid, pod) in self.pods.take().unwrap_or_default() {
            if !listed.contains_key(&uid) {
                self.note_gone(pod, now);
            }
        }
        self.pods = Some(listed);
    }

    fn note_gone(&mut self, pod: Arc<SeenPod>, now: Seconds) {
        if self.gone.len() == MOST_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back((pod, now));
    }
}
