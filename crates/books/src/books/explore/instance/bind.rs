//! Binds of the model's extender, like the product's `bind.rs` and `gpushare_kube::bind`.

use std::collections::BTreeMap;
use std::time::Duration;

use gpushare_core::gpu::AliyunUnit;
use gpushare_core::{NodeName, PodAsk, PodUid, Steps, names};
use gpushare_kube::bind::{Answer, Bind, Outcome};
use shuttle::sync::{Arc, mpsc};

use super::super::api::PodSnapshot;
use super::super::cluster::FIRST_TERM;
use super::watch::Look;
use super::{Fault, Instance, chance, delay};
use crate::Reservation;
use gpushare_kube::PodRef;

const MOST_SENDS: usize = 3;
/// The most steps for which a request is under way, ordinarily and if it is late.
const ON_ITS_WAY: u32 = 30;
const LATE: u32 = 300;

impl Instance {
    pub(in super::super) fn fits(&self, pod: &PodUid, node: &str) -> bool {
        let books = self.books();
        books.pods().get(pod.as_str()).is_some_and(|known| {
            let steps = Steps::for_request();
            let search = books.ledger().search(&known.ask, &steps);
            books.ledger().fit(node, pod, &search).is_ok()
        })
    }

    /// Like `Extender::bind`. Returns what the scheduler sees: whether the bind succeeded.
    pub(in super::super) fn bind(self: &Arc<Self>, pod: &PodRef, node: &NodeName) -> bool {
        let Some(term) = self.api.open_term(self.number) else {
            return false;
        };
        for sent in 1..=MOST_SENDS {
            match self.bind_once(pod, node, term, sent) {
                Some(Outcome::Stale(_)) => {}
                outcome => return outcome == Some(Outcome::Bound),
            }
        }
        false
    }

    fn bind_once(
        self: &Arc<Self>,
        pod: &PodRef,
        node: &NodeName,
        term: u64,
        sent: usize,
    ) -> Option<Outcome> {
        let (ask, version) = self.wanted(pod, sent > 1)?;
        let reserved = self.reserve(pod, &ask, node)?;
        let bind = Bind {
            pod: pod.clone(),
            version,
            node: node.clone(),
            annotations: BTreeMap::from([(names::ALLOCATION.to_owned(), reserved.record)]),
            timeout: Duration::from_secs(2),
        };
        let outcome = self.post(pod, &bind, term);
        let followup = self.change(
            format_args!("has tried to bind {}: {outcome:?}", pod.uid),
            |books| match (&outcome, self.plan.fault) {
                (Outcome::Unknown(_), Some(Fault::FreesOnUnknown)) => {
                    books.conclude(&pod.uid, &Outcome::Overtaken(String::new()))
                }
                _ => books.conclude(&pod.uid, &outcome),
            },
        );
        self.follow_up(pod.clone(), followup);
        Some(outcome)
    }

    /// Like `Books::reserve`. The truth stays locked until the room is checked, so no agent reports containers in
    /// between.
    fn reserve(&self, pod: &PodRef, ask: &PodAsk, node: &NodeName) -> Option<Reservation> {
        let (number, story) = (self.number, &self.api.story);
        let reserved = {
            let truth = self.api.truth();
            let mut books = self.books();
            story.tell(format!("extender {number} reserves {} on {node}", pod.uid));
            let reserved = books.reserve(pod, ask, node, AliyunUnit::GiB, 0).ok();
            if self.has(Fault::BooksAfterBind) {
                books.forget_booking(&pod.uid);
            }
            // An extender that may not bind may know less, but its bind does not take effect.
            if reserved.is_some() && truth.may_bind(number) {
                truth.check_room(number, &pod.uid, node.as_str());
            }
            reserved
        };
        self.check();
        reserved
    }

    fn wanted(self: &Arc<Self>, pod: &PodRef, behind: bool) -> Option<(PodAsk, String)> {
        let known = self.books().pods().get(pod.uid.as_str()).cloned();
        let known = known.filter(|known| !behind && !known.version.is_empty());
        let (ask, version) = if let Some(known) = known {
            (known.ask.clone(), known.version.clone())
        } else {
            let facts = self.look(pod, Look::Read).ok()??.facts;
            (facts.ask.ok()??, facts.version)
        };
        match self.plan.fault {
            Some(Fault::BindsAnyVersion) => Some((ask, String::new())),
            _ => Some((ask, version)),
        }
    }

    /// Like `Extender::post`.
    fn post(self: &Arc<Self>, pod: &PodRef, bind: &Bind, term: u64) -> Outcome {
        let answer = match self.send(bind, term) {
            Ok(()) => return Outcome::Bound,
            Err(Answer::Refused(message)) => return Outcome::Refused(message),
            Err(answer) => answer,
        };
        delay(3);
        let seen = match answer {
            Answer::Lost(_) => self.look(pod, Look::Fence),
            _ => match self.look(pod, Look::Read) {
                Ok(Some(seen)) if self.proves_nothing(bind, &seen) => self.look(pod, Look::Fence),
                seen => seen,
            },
        };
        match seen {
            Ok(seen) => bind.judge(answer, seen.as_ref().map(|seen| &seen.facts)),
            Err(()) => Outcome::Unknown("no answer, twice".to_owned()),
        }
    }

    /// Whether the pod shows no reason for the conflict. The API server also answers with a conflict if its database
    /// did not answer, and then the bind may still take effect.
    fn proves_nothing(&self, bind: &Bind, seen: &PodSnapshot) -> bool {
        let open = bind.can_take_effect(&seen.facts) && !seen.deleting;
        open && !self.has(Fault::BelievesConflicts)
    }

    /// Sends the request, which may get lost or arrive at any time. Its answer may get lost too.
    fn send(self: &Arc<Self>, bind: &Bind, term: u64) -> Result<(), Answer> {
        let leads = self.api.goes_on(self.number, term) || self.has(Fault::BindsWhenDeposed);
        if !leads || chance(5) {
            return Err(Answer::Refused("not sent, or turned away".to_owned()));
        }
        let lost = || Answer::Lost("no answer".to_owned());
        let cut_off = term == FIRST_TERM && self.plan.is_cut_off_when_deposed();
        if cut_off || chance(self.plan.network.request_lost) {
            return Err(lost());
        }
        let late = chance(self.plan.network.request_late);
        let false_conflict = chance(self.plan.network.false_conflict);
        let (tell, told) = mpsc::channel();
        let request = bind.clone();
        self.in_background(move |instance| {
            delay(if late { LATE } else { ON_ITS_WAY });
            let answer = instance.api.bind(&request);
            instance.check_everyone();
            // The sender may have given up.
            let _ = tell.send(answer);
        });
        if false_conflict {
            return Err(Answer::Conflict("the database did not answer".to_owned()));
        }
        if late || chance(3) {
            return Err(lost());
        }
        match told.recv() {
            Ok(answer) if !chance(self.plan.network.answer_lost) => answer,
            _ => Err(lost()),
        }
    }
}
