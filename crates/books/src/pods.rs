//! The pods: the one type of a pod that all decisions use, and an index of all pods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gpushare_core::preempt::Rank;
use gpushare_core::{Host, NodeName, PodAsk, PodUid};
use gpushare_kube::PodRef;
use gpushare_kube::convert::{PodFacts, PreemptionFacts};

/// A pod that asks for our devices and has not ended.
///
/// It has the part of [`PodFacts`] that decisions need. It leaves out the texts of the record and the claim,
/// because tens of thousands of pods would keep them in memory.
#[derive(Clone, Debug)]
pub struct KnownPod {
    pub pod: PodRef,
    /// Changes with every change of the pod.
    pub version: String,
    pub ask: PodAsk,
    pub host: Host,
    pub node: Option<NodeName>,
    pub rank: Rank,
    /// In seconds since 1970.
    pub created: i64,
    /// Whether the scheduler does not consider it for now: it is being deleted, has a scheduling gate, has
    /// become invalid, or is not shown by the watch.
    pub set_aside: bool,
    pub preemption: PreemptionFacts,
}

impl KnownPod {
    /// `None` if the pod asks for nothing, or its request is invalid.
    pub fn new(facts: PodFacts) -> Option<Self> {
        Some(Self {
            ask: facts.ask.ok()??,
            pod: PodRef {
                uid: facts.uid,
                namespace: facts.namespace,
                name: facts.name,
            },
            version: facts.version,
            host: facts.host,
            node: facts.node,
            rank: facts.rank,
            created: facts.created,
            set_aside: facts.deleting || facts.gated,
            preemption: facts.preemption,
        })
    }

    /// A pod that is being bound although the watch does not show it yet, or no longer does.
    pub(crate) fn unseen(pod: &PodRef, ask: &PodAsk) -> Self {
        Self {
            pod: pod.clone(),
            version: String::new(),
            ask: ask.clone(),
            host: Host::default(),
            node: None,
            rank: Rank::default(),
            created: 0,
            set_aside: true,
            preemption: PreemptionFacts::default(),
        }
    }

    /// Whether the scheduler looks for a node for it.
    pub fn wants_node(&self) -> bool {
        self.node.is_none() && !self.set_aside
    }

    pub(crate) fn turn(&self) -> Turn {
        (Reverse(self.rank), self.created, self.pod.uid.clone())
    }
}

/// Best first: the highest rank, then the oldest.
pub(crate) type Turn = (Reverse<Rank>, i64, PodUid);

/// All pods that ask for our devices and have not ended.
#[derive(Debug, Default)]
pub struct Pods {
    by_uid: HashMap<PodUid, Arc<KnownPod>>,
    /// How many pods with a node have each rank.
    ranks: BTreeMap<Rank, usize>,
}

impl Pods {
    pub fn get(&self, uid: &str) -> Option<&Arc<KnownPod>> {
        self.by_uid.get(uid)
    }

    /// Finds a pod by name, for people. The index itself is by uid.
    pub fn named(&self, namespace: &str, name: &str) -> Option<&Arc<KnownPod>> {
        let named =
            |known: &&Arc<KnownPod>| known.pod.namespace == namespace && known.pod.name == name;
        self.by_uid.values().find(named)
    }

    pub fn count(&self) -> usize {
        self.by_uid.len()
    }

    /// The pods that the scheduler looks for a node for.
    pub fn pending(&self) -> impl Iterator<Item = &Arc<KnownPod>> {
        self.by_uid.values().filter(|known| known.wants_node())
    }

    /// What to keep of a pod; `None` if it asks for nothing, or its request is invalid.
    pub(crate) fn known(&self, facts: PodFacts) -> Option<KnownPod> {
        let mut pod = KnownPod::new(facts)?;
        // Annotations that choose cards are not read on a bound pod. So keep the request that was read while
        // the pod waited: the policy learned from it.
        let before = self.get(pod.pod.uid.as_str());
        if let Some(before) = before.filter(|_| pod.node.is_some()) {
            pod.ask = before.ask.clone();
        }
        Some(pod)
    }

    pub fn reference(&self, uid: &PodUid) -> Option<PodRef> {
        Some(self.get(uid.as_str())?.pod.clone())
    }

    /// The lowest rank of a pod with a node.
    pub(crate) fn lowest_rank(&self) -> Option<Rank> {
        self.ranks.keys().next().copied()
    }

    /// Keeps the pod. Returns what was known of it before.
    pub(crate) fn keep(&mut self, pod: KnownPod) -> Option<Arc<KnownPod>> {
        self.count_rank(&pod);
        let before = self.by_uid.insert(pod.pod.uid.clone(), Arc::new(pod));
        if let Some(before) = &before {
            self.discount_rank(before);
        }
        before
    }

    pub(crate) fn remove(&mut self, uid: &PodUid) -> Option<Arc<KnownPod>> {
        let known = self.by_uid.remove(uid)?;
        self.discount_rank(&known);
        Some(known)
    }

    /// Keeps these pods and no others. Returns the previous ones.
    pub(crate) fn replace(
        &mut self,
        pods: HashMap<PodUid, Arc<KnownPod>>,
    ) -> HashMap<PodUid, Arc<KnownPod>> {
        self.ranks.clear();
        for pod in pods.values() {
            self.count_rank(pod);
        }
        std::mem::replace(&mut self.by_uid, pods)
    }

    fn count_rank(&mut self, pod: &KnownPod) {
        if pod.node.is_some() {
            *self.ranks.entry(pod.rank).or_default() += 1;
        }
    }

    fn discount_rank(&mut self, pod: &KnownPod) {
        if pod.node.is_some()
            && let Some(count) = self.ranks.get_mut(&pod.rank)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.ranks.remove(&pod.rank);
            }
        }
    }
}
