//! Watch, lists and reads of the model's extender, like the product's `watch.rs`.

use gpushare_core::ledger::BookingState;
use gpushare_core::placement::Charges;
use gpushare_core::validate::Violations;
use gpushare_core::{HeldPod, PodUid};
use gpushare_kube::convert::PodFacts;
use shuttle::sync::Arc;
use shuttle::thread;

use super::super::api::{Event, Next, PodSnapshot};
use super::super::cluster::Lag;
use super::{Fault, Instance, chance, delay};
use crate::{Finding, Followup, NodeFacts, PodEvent};
use gpushare_kube::PodRef;

/// How to find out what became of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Read,
    Fence,
    /// A read that is taken for a fence, by mistake.
    ReadAsFence,
}

impl Instance {
    /// Like `Extender::follow_pods`: lists again for each term, then fences the pods that wait, and opens binds in
    /// it.
    pub(in super::super) fn follow(self: &Arc<Self>) {
        let (mut at, mut listed) = (self.list(), 0);
        loop {
            match self.api.next(self.number, at, listed) {
                Next::Over => return,
                Next::Term(term) => {
                    if !self.has(Fault::OpensWithoutList) {
                        at = self.list();
                    }
                    self.open_when_fenced(term);
                    listed = term;
                }
                Next::Event(_) if self.is_behind() => thread::yield_now(),
                // The watch broke, and starts again with a new list.
                Next::Event(_) if chance(self.plan.network.watch_breaks) => at = self.list(),
                Next::Event(event) => {
                    self.take_in(*event);
                    at += 1;
                }
            }
        }
    }

    /// Whether the watch shows nothing new at present.
    fn is_behind(&self) -> bool {
        if self.api.is_over() {
            return false;
        }
        match self.plan.lag {
            Lag::None => false,
            Lag::UntilItLeads => self.api.truth().term_of(self.number).is_none(),
            Lag::UntilItBinds => {
                let books = self.books();
                let mut bookings = books.ledger().bookings();
                bookings.all(|(_, booking)| booking.state != BookingState::Reserved)
            }
        }
    }

    fn list(self: &Arc<Self>) -> usize {
        let (pods, at) = self.api.list();
        delay(self.plan.network.list_steps);
        let pods = pods.into_iter().map(|seen| self.read_facts(seen));
        let pods: Vec<PodEvent> = pods.map(PodEvent::of).collect();
        let to_read = self.change("takes in a list", |books| {
            if self.has(Fault::ListEndsUnconfirmed) {
                let confirmed = |booking: BookingState| booking == BookingState::Confirmed;
                let all: Vec<PodUid> = books
                    .ledger()
                    .bookings()
                    .map(|(uid, _)| uid.clone())
                    .collect();
                for uid in all {
                    if !books.nodes.booking_state(&uid).is_some_and(confirmed) {
                        books.forget_booking(&uid);
                    }
                }
            }
            PodEvent::replace(pods, books).0
        });
        for pod in to_read {
            self.follow_up(pod, Followup::Read);
        }
        at
    }

    fn take_in(&self, event: Event) {
        let what = format!("sees {event:?}");
        self.change(what, |books| match event {
            Event::Apply(seen) if seen.deleting && self.has(Fault::FreesOnDeletion) => {
                books.end_pod(&seen.facts.uid);
            }
            Event::Apply(seen) => match PodEvent::of(self.read_facts(seen)) {
                PodEvent::Invalid(notice) if self.has(Fault::FreesOnInvalid) => {
                    books.end_pod(&notice.pod.uid);
                }
                seen => drop(seen.apply(books)),
            },
            Event::Delete(seen) => {
                let booked = books.nodes.booked_node(&seen.facts.uid);
                books.end_pod(&seen.facts.uid);
                if let (Some(node), true) = (booked, self.has(Fault::FreesHeldWithPod)) {
                    books.nodes.forget_held(&node);
                }
            }
        });
    }

    /// What the extender reads from a pod.
    fn read_facts(&self, seen: PodSnapshot) -> PodFacts {
        let mut facts = seen.facts;
        if seen.senseless && self.has(Fault::ReadsChoicesOfBound) {
            facts.ask = Err(Violations(Vec::new()));
        }
        facts
    }

    pub(in super::super) fn set_node(&self, facts: NodeFacts) {
        self.change("sees a node", |books| books.apply_node(facts));
    }

    /// The agent of the node reports what containers without pods hold there. No check relies on the report before
    /// the books have it. After that, the books must agree with it.
    pub(in super::super) fn hear(&self, facts: impl Fn(Vec<HeldPod>) -> NodeFacts, node: &str) {
        let held = {
            let mut truth = self.api.truth();
            let held = truth.held_on(node);
            let mut books = self.books();
            let mut heard = held.clone();
            match self.plan.fault {
                Some(Fault::IgnoresHeld) => heard.clear(),
                Some(Fault::HeldTakesNoRoom) => {
                    for held in &mut heard {
                        held.charges = Charges::default();
                    }
                }
                _ => {}
            }
            books.apply_node(facts(heard));
            truth.note_told(self.number, node, &held);
            held
        };
        let (number, story) = (self.number, &self.api.story);
        story.tell(format!("extender {number} hears of {held:?} on {node}"));
        self.check();
    }

    pub(in super::super) fn lose_node(&self, name: &str) {
        self.change("loses a node", |books| books.delete_node(name));
    }

    /// Like `Extender::follow_up`.
    pub(super) fn follow_up(self: &Arc<Self>, pod: PodRef, followup: Followup) {
        let mut by = match followup {
            Followup::Nothing => return,
            Followup::Read if self.has(Fault::SkipsReads) => return,
            Followup::Read => Look::Read,
            Followup::Fence => Look::Fence,
        };
        self.in_background(move |own| {
            while own.look(&pod, by).is_err() {
                by = own.next_look(by);
                delay(10);
            }
        });
    }

    /// Like `Extender::open_when_fenced`.
    fn open_when_fenced(self: &Arc<Self>, term: u64) {
        let mut pods: Vec<PodRef> = {
            let books = self.books();
            books
                .pods()
                .pending()
                .map(|known| known.pod.clone())
                .collect()
        };
        // A hash map returns pods in a different order in every run, but a seed must explore the same orders in
        // every run.
        pods.sort_by(|one, other| one.uid.cmp(&other.uid));
        self.in_background(move |own| {
            for pod in pods {
                let mut by = Look::Fence;
                while !own.has(Fault::OpensWithoutFences) && own.look(&pod, by).is_err() {
                    if !own.api.goes_on(own.number, term) {
                        return;
                    }
                    by = own.next_look(by);
                    delay(10);
                }
            }
            own.api.open_binds(own.number, term);
            own.check();
        });
    }

    /// How to look again when there was no answer.
    fn next_look(&self, by: Look) -> Look {
        match by {
            Look::Fence if self.has(Fault::BelievesUnansweredFences) => Look::ReadAsFence,
            by => by,
        }
    }

    fn is_reachable(&self) -> bool {
        let leads = self.api.truth().term_of(self.number).is_some();
        // In the end every extender is reachable.
        leads || !self.plan.is_cut_off_when_deposed() || self.api.is_over()
    }

    fn ask(&self, pod: &PodRef, by: Look) -> Option<PodSnapshot> {
        match by {
            Look::Fence if !self.has(Fault::ReadsInsteadOfFencing) => {
                self.api.fence(&pod.name, &pod.uid)
            }
            Look::Fence | Look::Read | Look::ReadAsFence => self.api.get(&pod.name),
        }
    }

    /// Like `Extender::find_out`. Returns an error if there is no answer.
    pub(super) fn look(
        self: &Arc<Self>,
        pod: &PodRef,
        by: Look,
    ) -> Result<Option<PodSnapshot>, ()> {
        loop {
            let begin = || {
                self.change(format_args!("looks at {}: {by:?}", pod.uid), |books| {
                    books.begin_read(&pod.uid)
                })
            };
            let mut read = begin();
            let answered = chance(self.plan.network.read_answered);
            // A request without an answer may have arrived or not. A fence that has not arrived has written nothing.
            let arrives = answered || chance(2);
            let answer = arrives.then(|| self.ask(pod, by)).flatten();
            delay(5);
            if self.has(Fault::TrustsStaleReads) {
                self.change(format_args!("gets no answer about {}", pod.uid), |books| {
                    books.abandon_read(&pod.uid, read);
                });
                read = begin();
            }
            if !answered || !self.is_reachable() {
                self.change(format_args!("gets no answer about {}", pod.uid), |books| {
                    books.abandon_read(&pod.uid, read);
                });
                return Err(());
            }
            let facts = answer.clone().map(|seen| self.read_facts(seen));
            let verdict = self.change(format_args!("has seen {answer:?}"), |books| {
                let verdict = match by {
                    Look::Read => books.finish_read(&pod.uid, read, facts),
                    Look::Fence | Look::ReadAsFence => books.finish_fence(&pod.uid, read, facts),
                };
                match &verdict {
                    Finding::Found(facts) if self.has(Fault::ConfirmsByRead) => {
                        books.apply_pod((**facts).clone());
                    }
                    _ => {}
                }
                verdict
            });
            match verdict {
                Finding::Stale => {}
                Finding::Fenced(_) => {
                    self.follow_up(pod.clone(), Followup::Read);
                    return Ok(answer);
                }
                Finding::Gone => return Ok(None),
                Finding::Found(_) => return Ok(answer),
            }
        }
    }
}
