//! Binds of the model's extender: as `bind.rs`, and `gpushare_kube::bind`.

use std::collections::BTreeMap;

use gpushare_core::gpu::AliyunUnit;
use gpushare_core::{NodeName, PodUid, names};
use gpushare_kube::bind::{Answer, Bind, Outcome, surely_over};
use gpushare_kube::convert::PodFacts;
use shuttle::sync::{Arc, mpsc};

use super::super::super::PodRef;
use super::super::api::{Seen, TIMEOUT};
use super::super::cluster::FIRST_TERM;
use super::{Fault, Instance, chance, delay};

impl Instance {
    pub(in super::super) fn fits(&self, pod: &PodUid, node: &str) -> bool {
        let state = self.state();
        state.pod(pod.as_str()).is_some_and(|known| {
            let search = state.ledger().search(&known.ask);
            state.ledger().fit(node, pod, &search).is_ok()
        })
    }

    /// As `Extender::bind`; whether the scheduler hears of success.
    pub(in super::super) fn bind(self: &Arc<Self>, pod: &PodRef, node: &NodeName) -> bool {
        let Some(term) = self.api.open_term(self.number) else {
            return false;
        };
        let known = self.state().pod(pod.uid.as_str()).cloned();
        let ask = match known {
            Some(known) => known.ask,
            None => match self.read(pod) {
                Ok(Some(Seen {
                    facts:
                        PodFacts {
                            ask: Ok(Some(ask)), ..
                        },
                    ..
                })) => ask,
                _ => return false,
            },
        };
        let reserved = self.change(format_args!("reserves {} on {node}", pod.uid), |state| {
            let term = if self.has(Fault::RetriesInLaterTerm) {
                0
            } else {
                term
            };
            let reserved = state.reserve(pod, &ask, node, term, AliyunUnit::GiB, 0);
            if self.has(Fault::BooksAfterBind) {
                state.forget_booking(&pod.uid);
            }
            reserved
        });
        let Ok(reserved) = reserved else {
            return false;
        };
        let bind = Bind {
            pod: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            node: node.clone(),
            annotations: BTreeMap::from([(names::ALLOCATION.to_owned(), reserved.record)]),
            timeout: TIMEOUT,
        };
        let outcome = self.post(&bind, term);
        let until = match self.plan.fault {
            Some(Fault::ClearsDoubtEarly) => self.api.now(),
            _ => self.api.now() + surely_over(TIMEOUT),
        };
        let followup = self.change(
            format_args!("has tried to bind {}: {outcome:?}", pod.uid),
            |state| match (&outcome, self.plan.fault) {
                (Outcome::Unknown(_), Some(Fault::FreesOnUnknown))
                | (Outcome::Refused(_), Some(Fault::ForgetsEarlierDoubt)) => {
                    state.conclude(&pod.uid, &Outcome::Overtaken(String::new()), until)
                }
                _ => state.conclude(&pod.uid, &outcome, until),
            },
        );
        self.follow_up(pod.clone(), followup);
        outcome == Outcome::Bound
    }

    /// As `gpushare_kube::bind::bind`.
    fn post(self: &Arc<Self>, bind: &Bind, term: u64) -> Outcome {
        let answer = match self.send(bind, term) {
            Ok(()) => return Outcome::Bound,
            Err(Answer::Refused(message)) => return Outcome::Refused(message),
            Err(answer) => answer,
        };
        delay(3);
        if chance(4) {
            return Outcome::Unknown("the read failed".to_owned());
        }
        let seen = self.api.get(&bind.name);
        delay(5);
        bind.judge(answer, seen.as_ref().map(|seen| &seen.facts))
    }

    /// The request on its way, which may get lost, and its answer, which may get lost too.
    fn send(self: &Arc<Self>, bind: &Bind, term: u64) -> Result<(), Answer> {
        let regardless = self.has(Fault::BindsWhenDeposed);
        let sent = self.api.send(self.number, term, regardless);
        let Some(latest) = sent.filter(|_| !chance(5)) else {
            return Err(Answer::Refused("not sent, or turned away".to_owned()));
        };
        let lost = || Answer::Lost("no answer".to_owned());
        let cut_off = term == FIRST_TERM && self.plan.is_cut_off_when_deposed();
        if cut_off || chance(self.plan.network.request_lost) {
            return Err(lost());
        }
        let (tell, told) = mpsc::channel();
        let request = bind.clone();
        self.in_background(move |instance| {
            delay(30);
            let answer = instance.api.bind(&request, latest);
            instance.check_everyone();
            // The sender may have given up.
            let _ = tell.send(answer);
        });
        if chance(3) {
            return Err(lost());
        }
        match told.recv() {
            Ok(Some(answer)) if !chance(self.plan.network.answer_lost) => answer,
            _ => Err(lost()),
        }
    }
}
