//! A leader's books and an API server's pods, driven step by step with a simulated clock.

use gpushare_core::NodeName;
use gpushare_core::Steps;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::names;
use gpushare_core::preempt::Evictor;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde_json::json;

use super::super::*;
use crate::books::tests::{NODE, books, named};
use crate::{Books, RefusedPod};

pub(in crate::preemptions) const CARD_GIB: u64 = 8;
pub(super) const LOW: i32 = 10;
pub(super) const HIGH: i32 = 30;
pub(in crate::preemptions) const SECOND: i64 = 1000;
pub(in crate::preemptions) const MINUTE: i64 = 60 * SECOND;
/// When the tests begin, in milliseconds since 1970.
pub(in crate::preemptions) const START: i64 = 1_800_000_000_000;

/// A pod as the API server has it.
#[derive(Clone, Debug)]
pub(in crate::preemptions) struct Pod {
    pub(in crate::preemptions) uid: &'static str,
    pub(in crate::preemptions) gib: u64,
    pub(in crate::preemptions) priority: i32,
    pub(in crate::preemptions) record: Option<String>,
    pub(in crate::preemptions) claim: Option<String>,
    /// In seconds since 1970.
    pub(in crate::preemptions) ends_by: Option<i64>,
    pub(in crate::preemptions) nominated: bool,
    pub(super) never_preempts: bool,
    pub(in crate::preemptions) over_budget: bool,
}

impl Pod {
    pub(in crate::preemptions) fn new(uid: &'static str, gib: u64, priority: i32) -> Self {
        Self {
            uid,
            gib,
            priority,
            record: None,
            claim: None,
            ends_by: None,
            nominated: false,
            never_preempts: false,
            over_budget: false,
        }
    }

    pub(in crate::preemptions) fn facts(&self) -> PodFacts {
        let seconds = |seconds: i64| jiff::Timestamp::from_second(seconds).unwrap().to_string();
        let mut pod = json!({
            "metadata": {"name": self.uid, "namespace": "team", "uid": self.uid,
                "deletionTimestamp": self.ends_by.map(seconds),
                "annotations": {names::ALLOCATION: self.record, names::PREEMPTION: self.claim,
                    names::OVER_BUDGET_MARK: self.over_budget.then_some("vision")}},
            "spec": {"nodeName": self.record.as_ref().map(|_| NODE), "priority": self.priority,
                "preemptionPolicy": self.never_preempts.then_some("Never"),
                "containers": [{"name": "c", "resources":
                    {"limits": {"aliyun.com/gpu-mem": self.gib.to_string()}}}]},
            "status": {"phase": if self.record.is_some() { "Running" } else { "Pending" },
                "nominatedNodeName": self.nominated.then_some(NODE)},
        });
        let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.retain(|_, value| !value.is_null());
        let pod: slim::Pod = serde_json::from_value(pod).unwrap();
        PodFacts::new(&pod, &gpu::dialects(AliyunUnit::GiB))
    }
}

/// A leader's books, the pods that the API server has, and a clock.
pub(super) struct World {
    pub(super) books: Books,
    pub(super) pods: Vec<Pod>,
    began: Instant,
    pub(super) millis: i64,
}

impl World {
    /// One node with this many cards of eight GiB.
    pub(super) fn new(cards: usize) -> Self {
        Self {
            books: empty(cards),
            pods: Vec::new(),
            began: Instant::now(),
            millis: START,
        }
    }

    pub(super) fn now(&self) -> Now {
        let passed = u64::try_from(self.millis - START).unwrap();
        Now {
            instant: self.began + Duration::from_millis(passed),
            millis: self.millis,
        }
    }

    pub(super) fn pod(&mut self, uid: &str) -> &mut Pod {
        self.pods.iter_mut().find(|pod| pod.uid == uid).unwrap()
    }

    /// Changes the pod, and lets the watch show it.
    pub(super) fn change(&mut self, uid: &str, change: impl FnOnce(&mut Pod)) {
        change(self.pod(uid));
        let facts = self.pod(uid).facts();
        self.books.apply_pod(facts);
    }

    pub(super) fn create(&mut self, pod: Pod) {
        self.books.apply_pod(pod.facts());
        self.pods.push(pod);
    }

    /// A pod that runs.
    pub(super) fn runs(&mut self, uid: &'static str, gib: u64, priority: i32) {
        self.create(Pod::new(uid, gib, priority));
        self.binds(uid).unwrap();
    }

    pub(super) fn binds(&mut self, uid: &str) -> Result<(), String> {
        let ask = self.pod(uid).facts().ask.unwrap().unwrap();
        let (unit, node) = (AliyunUnit::GiB, NODE.into());
        let reserved = self
            .books
            .reserve(&named(uid), &ask, &node, unit, 0)
            .map_err(|why| why.to_string())?;
        self.books.bound(&uid.into());
        self.change(uid, |pod| pod.record = Some(reserved.record));
        Ok(())
    }

    /// The pod's deletion begins, with this many seconds of grace.
    pub(super) fn ends(&mut self, uid: &str, seconds: i64) {
        let ends_by = self.millis / SECOND + seconds;
        self.change(uid, |pod| pod.ends_by = Some(ends_by));
    }

    pub(super) fn is_gone(&mut self, uid: &str) {
        self.pods.retain(|pod| pod.uid != uid);
        self.books.end_pod(&uid.into());
    }

    /// The scheduler asks for the pod and is refused; then victims are looked for.
    pub(super) fn contends(&mut self, uid: &str) -> Result<Step, StaleProposal> {
        self.contends_by(uid, Evictor::Gpushare)
    }

    pub(super) fn contends_by(
        &mut self,
        uid: &str,
        evictor: Evictor,
    ) -> Result<Step, StaleProposal> {
        let (facts, now) = (self.pod(uid).facts(), self.now());
        contend(&mut self.books, facts, evictor, now)
    }

    /// Like [`Self::contends`], and then the claim is written and shown.
    pub(super) fn claims(&mut self, uid: &str) {
        let first = self.contends(uid).unwrap();
        self.does(uid, &first);
    }

    /// The API server does what the step says, the watch shows it, and the answer comes.
    pub(super) fn does(&mut self, uid: &str, step: &Step) {
        match step {
            Step::Write { record, .. } => self.change(uid, |pod| {
                pod.claim = Some(record.clone());
                pod.nominated = true;
            }),
            Step::Evict { victims, .. } => {
                for victim in victims {
                    self.ends(victim.uid.as_str(), 30);
                }
            }
            Step::Nominate { .. } | Step::Wake { .. } => {
                self.change(uid, |pod| pod.nominated = true);
            }
            Step::Clear => self.change(uid, |pod| {
                pod.claim = None;
                pod.nominated = false;
            }),
            Step::GiveUp(_) => self.books.end_preemption(&uid.into()),
        }
        self.finish(uid, step, Outcome::Done);
    }

    pub(super) fn finish(&mut self, uid: &str, step: &Step, outcome: Outcome) {
        let now = self.now().instant;
        self.books.finish_step(&uid.into(), step, outcome, now);
    }

    /// The only step to be done now, which must be this pod's.
    pub(super) fn step(&mut self, uid: &str) -> Step {
        let now = self.now();
        let (mut steps, _) = self.books.preemption_steps(now);
        let step = steps.pop();
        assert!(steps.is_empty(), "{steps:?}");
        let (pod, step) = step.expect("a step is to be done");
        assert_eq!(pod.uid.as_str(), uid, "{step:?}");
        step
    }

    pub(super) fn does_step(&mut self, uid: &str) -> Step {
        let step = self.step(uid);
        self.does(uid, &step);
        step
    }

    /// There is no step now, but there is a time to look again; advances the clock past it.
    pub(super) fn waits(&mut self) {
        let now = self.now();
        let (steps, again) = self.books.preemption_steps(now);
        assert!(steps.is_empty(), "{steps:?}");
        let again = again.expect("a moment at which to look again");
        let later = again.saturating_duration_since(now.instant);
        self.millis += i64::try_from(later.as_millis()).unwrap() + 1;
    }

    pub(super) fn is_idle(&mut self) -> bool {
        let now = self.now();
        let (steps, again) = self.books.preemption_steps(now);
        steps.is_empty() && again.is_none()
    }

    pub(super) fn fits(&self, uid: &str) -> bool {
        self.books.situation().fits_there(&uid.into(), &NODE.into())
    }

    /// Replaces this process by another one, which knows only what the API server shows.
    pub(super) fn restarts(&mut self, cards: usize) {
        self.books = empty(cards);
        let listed = self.pods.iter().map(Pod::facts).collect();
        self.books.replace_pods(listed, &[]);
    }
}

pub(in crate::preemptions) fn empty(cards: usize) -> Books {
    let all = [("GPU-a", CARD_GIB), ("GPU-b", CARD_GIB)];
    books(&all[..cards])
}

/// The scheduler asks for the pod and is refused; then victims are looked for, and room is claimed.
pub(in crate::preemptions) fn contend(
    books: &mut Books,
    pod: PodFacts,
    evictor: Evictor,
    now: Now,
) -> Result<Step, StaleProposal> {
    let uid = pod.uid.clone();
    let refused = RefusedPod::new(pod, [NODE].into_iter(), books.moment()).unwrap();
    let candidates = books.numbered(&refused);
    books.refused(refused, candidates, now.instant);
    let preemptor = books.pods().get(uid.as_str()).cloned();
    let preemptor = preemptor.ok_or(StaleProposal::Pod)?;
    let steps = Steps::new(10_000);
    let (nodes, terms): (&[NodeName], _) = (&[NODE.into()], Terms::default());
    let looked = books
        .situation()
        .propose(&preemptor, nodes, &terms, None, &steps, now);
    let proposal = looked.best.ok_or(StaleProposal::Node)?;
    let begun = books.begin_preemption(&preemptor, &proposal, evictor, now)?;
    Ok(begun.first)
}

/// Two cards of eight GiB with five taken on each, and a pod that needs six.
pub(super) fn fragmented() -> World {
    let mut world = World::new(2);
    world.runs("a", 5, LOW);
    world.runs("b", 5, LOW);
    world.create(Pod::new("high", 6, HIGH));
    world
}

/// A full card, whose pod is evicted for another.
pub(super) fn evicting() -> World {
    let mut world = World::new(1);
    world.runs("victim", 8, LOW);
    world.create(Pod::new("high", 8, HIGH));
    world.claims("high");
    assert!(matches!(world.does_step("high"), Step::Evict { .. }));
    world
}
