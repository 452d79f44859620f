//! An API server's pods, two replicas that follow them with a lag, and the requests under way.

use std::collections::{BTreeSet, VecDeque};

use gpushare_kube::bind;

use super::super::tests::{CARD_GIB, Pod, SECOND, START, contend, empty};
use super::super::*;
use super::{Event, NAMES};
use crate::books::tests::named;
use crate::{Books, Followup};

const CARDS: usize = 2;
/// More rounds than any preemption takes to end.
const ROUNDS: usize = 2_000;

/// A request that was sent to the API server.
#[derive(Debug)]
struct Request {
    replica: usize,
    /// The process that sent it.
    process: u32,
    pod: PodUid,
    step: Step,
    outcome: Option<Outcome>,
    answered: bool,
}

#[derive(Debug)]
enum Change {
    Shown(Pod),
    Gone(PodUid),
}

struct Replica {
    books: Books,
    process: u32,
    /// What the watch has yet to show.
    changes: VecDeque<Change>,
}

pub(super) struct Model {
    pods: Vec<Pod>,
    created: BTreeSet<usize>,
    /// Pods whose rank was ever changed.
    marked: BTreeSet<&'static str>,
    replicas: [Replica; 2],
    leader: usize,
    requests: Vec<Request>,
    began: Instant,
    millis: i64,
}

impl Model {
    pub(super) fn new() -> Self {
        let replica = || Replica {
            books: empty(CARDS),
            process: 0,
            changes: VecDeque::new(),
        };
        Self {
            pods: Vec::new(),
            created: BTreeSet::new(),
            marked: BTreeSet::new(),
            replicas: [replica(), replica()],
            leader: 0,
            requests: Vec::new(),
            began: Instant::now(),
            millis: START,
        }
    }

    fn now(&self) -> Now {
        let passed = u64::try_from(self.millis - START).unwrap();
        Now {
            instant: self.began + Duration::from_millis(passed),
            millis: self.millis,
        }
    }

    fn leads(&mut self) -> &mut Books {
        &mut self.replicas[self.leader].books
    }

    fn pod(&mut self, uid: &str) -> Option<&mut Pod> {
        self.pods.iter_mut().find(|pod| pod.uid == uid)
    }

    /// Changes a pod in the API server, whose watches will show it.
    fn change(&mut self, uid: &str, change: impl FnOnce(&mut Pod)) {
        let Some(pod) = self.pod(uid) else { return };
        change(pod);
        let pod = pod.clone();
        for replica in &mut self.replicas {
            replica.changes.push_back(Change::Shown(pod.clone()));
        }
    }

    fn remove(&mut self, uid: &str) {
        self.pods.retain(|pod| pod.uid != uid);
        for replica in &mut self.replicas {
            replica.changes.push_back(Change::Gone(uid.into()));
        }
    }

    pub(super) fn happens(&mut self, event: &Event) {
        let now = self.now();
        match *event {
            Event::Create { pod, gib, priority } => {
                if self.created.insert(pod) {
                    self.pods.push(Pod::new(NAMES[pod], gib, priority));
                    self.change(NAMES[pod], |_| {});
                }
            }
            Event::Refuse { pod, evictor } => {
                let Some(facts) = self.pod(NAMES[pod]).map(|pod| pod.facts()) else {
                    return;
                };
                let first = contend(self.leads(), facts, evictor, now);
                if let Ok(first) = first {
                    self.send(NAMES[pod].into(), first);
                }
            }
            Event::Bind(pod) => self.bind(NAMES[pod]),
            Event::Look => {
                let (steps, _) = self.leads().preemption_steps(now);
                for (pod, step) in steps {
                    self.send(pod.uid, step);
                }
            }
            Event::Effect { request, protected } => self.takes_effect(request, protected),
            Event::Answer { request, lost } => self.answer(request, lost),
            Event::Delete(pod) => {
                let ends_by = self.millis / SECOND + 30;
                match self.pod(NAMES[pod]) {
                    Some(known) if known.record.is_none() => self.remove(NAMES[pod]),
                    _ => self.change(NAMES[pod], |pod| {
                        pod.ends_by.get_or_insert(ends_by);
                    }),
                }
            }
            Event::End(pod) => {
                if self
                    .pod(NAMES[pod])
                    .is_some_and(|pod| pod.ends_by.is_some())
                {
                    self.remove(NAMES[pod]);
                }
            }
            Event::Mark { pod, over } => {
                self.marked.insert(NAMES[pod]);
                self.change(NAMES[pod], |pod| pod.over_budget = over);
            }
            Event::Show { replica, changes } => self.show(replica, changes),
            Event::Lead => {
                self.leads().stop_preempting();
                self.leader = 1 - self.leader;
                self.list(self.leader);
            }
            Event::Restart(replica) => {
                self.replicas[replica].books = empty(CARDS);
                self.replicas[replica].process += 1;
                self.list(replica);
            }
            Event::Pass(millis) => self.millis += millis,
        }
    }

    fn send(&mut self, pod: PodUid, step: Step) {
        self.requests.push(Request {
            replica: self.leader,
            process: self.replicas[self.leader].process,
            pod,
            step,
            outcome: None,
            answered: false,
        });
    }

    fn show(&mut self, replica: usize, changes: usize) {
        let Replica {
            books,
            changes: unseen,
            ..
        } = &mut self.replicas[replica];
        for _ in 0..changes {
            match unseen.pop_front() {
                Some(Change::Shown(pod)) => books.apply_pod(pod.facts()),
                Some(Change::Gone(pod)) => books.end_pod(&pod),
                None => return,
            }
        }
    }

    fn list(&mut self, replica: usize) {
        let listed = self.pods.iter().map(Pod::facts).collect();
        let replica = &mut self.replicas[replica];
        replica.changes.clear();
        replica.books.replace_pods(listed, &[]);
        // A replica that begins to lead or restarts continues every claim.
        for pod in &self.pods {
            let goes_on = replica.books.preemptions().claim(&pod.uid.into()).is_some();
            assert_eq!(
                goes_on,
                pod.claim.is_some() && pod.record.is_none(),
                "{pod:?}"
            );
        }
    }

    fn bind(&mut self, uid: &str) {
        let Some(pod) = self.pod(uid) else { return };
        let (ask, free) = (pod.facts().ask.unwrap().unwrap(), pod.record.is_none());
        let pod = named(uid);
        let (unit, node) = (gpushare_core::gpu::AliyunUnit::GiB, "n1".into());
        let Ok(reserved) = self.leads().reserve(&pod, &ask, &node, unit, 0) else {
            return;
        };
        let outcome = if free {
            self.change(uid, |pod| {
                pod.record = Some(reserved.record);
                pod.nominated = false;
            });
            bind::Outcome::Bound
        } else {
            bind::Outcome::Overtaken(String::new())
        };
        if self.leads().conclude(&pod.uid, &outcome) == Followup::Read {
            let answer = self.pod(uid).map(|pod| pod.facts());
            let read = self.leads().begin_read(&pod.uid);
            self.leads().finish_read(&pod.uid, read, answer);
        }
    }

    fn takes_effect(&mut self, request: usize, protected: bool) {
        let Some(request) = self.requests.get(request).map(|_| request) else {
            return;
        };
        if self.requests[request].outcome.is_some() {
            return;
        }
        let pod = self.requests[request].pod.clone();
        let step = self.requests[request].step.clone();
        let outcome = self.effect(request, &pod, &step, protected);
        self.requests[request].outcome = Some(outcome);
        if self.requests[request].answered {
            self.requests.remove(request);
        }
    }

    /// Whether the process that sent it still runs and leads, as far as it knows.
    fn still_leads(&self, request: usize) -> bool {
        let Request {
            replica, process, ..
        } = self.requests[request];
        replica == self.leader && self.replicas[replica].process == process
    }

    fn effect(&mut self, request: usize, pod: &PodUid, step: &Step, protected: bool) -> Outcome {
        let now = self.now();
        let pending = self
            .pod(pod.as_str())
            .is_some_and(|pod| pod.record.is_none());
        match step {
            Step::Evict { victims, .. } => {
                for victim in victims {
                    let must_go = self.leads().situation().must_go(&victim.uid, pod);
                    if !self.still_leads(request) || !must_go {
                        continue;
                    }
                    if protected {
                        self.leads().end_preemption(pod);
                        self.leads().contend_later(pod, now.instant);
                        return Outcome::Done;
                    }
                    self.evict(victim.uid.as_str(), pod);
                }
                Outcome::Done
            }
            Step::GiveUp(_) if !self.still_leads(request) => Outcome::Failed,
            Step::GiveUp(_) => {
                self.leads().end_preemption(pod);
                self.leads().contend_later(pod, now.instant);
                Outcome::Done
            }
            Step::Clear if self.pod(pod.as_str()).is_some() => {
                self.change(pod.as_str(), |pod| {
                    pod.claim = None;
                    pod.nominated = false;
                });
                Outcome::Done
            }
            _ if !pending => Outcome::Gone,
            Step::Write { record, .. } => {
                self.change(pod.as_str(), |pod| {
                    pod.claim = Some(record.clone());
                    pod.nominated = true;
                });
                Outcome::Done
            }
            Step::Clear | Step::Nominate { .. } | Step::Wake { .. } => {
                self.change(pod.as_str(), |pod| pod.nominated = true);
                Outcome::Done
            }
        }
    }

    fn evict(&mut self, victim: &str, preemptor: &PodUid) {
        let outranks = self.pod(preemptor.as_str()).map(|pod| pod.facts().rank);
        let lags = !self.replicas[self.leader].changes.is_empty();
        let marked = [victim, preemptor.as_str()].map(|pod| self.marked.contains(pod));
        let late = lags && marked.contains(&true);
        let ends_by = self.millis / SECOND + 30;
        self.change(victim, |victim| {
            // The replica may still know a preemptor that is just gone, and not yet know a mark that has just changed.
            assert!(late || outranks.is_none_or(|rank| rank > victim.facts().rank));
            victim.ends_by.get_or_insert(ends_by);
        });
    }

    fn answer(&mut self, request: usize, lost: bool) {
        let now = self.now().instant;
        let Some(found) = self.requests.get_mut(request).filter(|one| !one.answered) else {
            return;
        };
        let outcome = found.outcome.filter(|_| !lost).unwrap_or(Outcome::Failed);
        let (pod, step) = (found.pod.clone(), found.step.clone());
        let (replica, process) = (found.replica, found.process);
        if found.outcome.is_some() {
            self.requests.remove(request);
        } else {
            // The request may still take effect.
            found.answered = true;
        }
        let replica = &mut self.replicas[replica];
        if replica.process == process {
            replica.books.finish_step(&pod, &step, outcome, now);
        }
    }

    pub(super) fn check(&self) {
        let mut used = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| pod.record.is_some()) {
            let bound = pod.facts().bound(&gpushare_core::gpu::classes());
            for card in bound.unwrap().unwrap().placement.cards() {
                *used.entry(card.clone()).or_insert(0) += pod.gib;
            }
        }
        assert!(used.values().all(|gib| *gib <= CARD_GIB), "{used:?}");
        for replica in &self.replicas {
            let claimed = replica.books.ledger().claims().map(|(pod, _)| pod);
            assert!(claimed.eq(replica.books.preemptions().live.keys()));
        }
    }

    /// Without further disturbances everything comes to its end.
    pub(super) fn settles(&mut self) {
        for _ in 0..ROUNDS {
            while !self.requests.is_empty() {
                self.takes_effect(0, false);
                self.answer(0, false);
            }
            for replica in 0..2 {
                self.show(replica, usize::MAX);
            }
            let now = self.now();
            let (steps, again) = self.leads().preemption_steps(now);
            let (idle, later) = (steps.is_empty(), again);
            for (pod, step) in steps {
                self.send(pod.uid, step);
            }
            match (idle, later) {
                (false, _) => {}
                (true, Some(later)) => {
                    let wait = later.saturating_duration_since(now.instant);
                    self.millis += i64::try_from(wait.as_millis()).unwrap() + 1;
                }
                (true, None) => {
                    self.every_pod_changes();
                    return self.check_nothing_is_left();
                }
            }
            self.check();
        }
        panic!("claims do not end: {:?}", self.leads().preemptions());
    }

    /// If the watch has shown the removal of a claim before its answer came, the claim is remembered until the pod
    /// changes next.
    fn every_pod_changes(&mut self) {
        let pods: Vec<&str> = self.pods.iter().map(|pod| pod.uid).collect();
        for pod in pods {
            self.change(pod, |_| {});
        }
        for replica in 0..2 {
            self.show(replica, usize::MAX);
        }
    }

    fn check_nothing_is_left(&self) {
        for replica in &self.replicas {
            let Preemptions { live, .. } = replica.books.preemptions();
            assert!(live.is_empty(), "{live:?}");
        }
        let ended = &self.replicas[self.leader].books.preemptions().ended;
        assert!(ended.is_empty(), "{ended:?}");
        for pod in self.pods.iter().filter(|pod| pod.record.is_none()) {
            assert_eq!(pod.claim, None, "{pod:?}");
        }
    }
}
