//! Card-level preemption: pods of lower rank go so that a pod fits that no card can take.
//!
//! kube-scheduler sees totals of a node, not cards. Where the totals suffice and no single card does, it
//! sees nobody to evict and never asks us; so we look for victims ourselves, for every refused pod that
//! outranks somebody ([`decide`]), and carry the evictions out ([`carry`]). Where the totals do not
//! suffice, kube-scheduler does look for victims, and asks [`verb`] about them: both ways lead to the same
//! claim, of which a pod has one at a time. It looks by priority alone; whoever outranks others only because they
//! are over their budget is our business there too.
//!
//! Everything that is done follows from the state ([`super::state`]); this module only talks to the API
//! server. Only the leader does.

mod carry;
mod decide;
mod verb;
mod wire;

use std::convert::Infallible;
use std::time::Instant;

use super::Extender;
use super::state::Now;

pub(super) use verb::preempt_verb;

/// Decisions between two looks at the preemptions under way.
const DECISIONS_IN_A_ROW: usize = 8;

fn now() -> Now {
    Now {
        instant: Instant::now(),
        millis: jiff::Timestamp::now().as_millisecond(),
    }
}

/// Does what may take a while beside the async threads.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.map_err(|error| error.to_string())
}

/// Why it is not known who would have to go.
fn undecided(steps: u32) -> String {
    format!(
        "within {steps} steps it was not found out who would have to go: the pod asks in too many containers"
    )
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

impl Extender {
    /// Preempts for whoever may, for ever.
    pub(super) async fn preempt(self) -> Result<(), Infallible> {
        let shutdown = self.0.tasks.shutdown().clone();
        let work = async {
            let mut next = None;
            loop {
                let rung = self.0.bells.preempt.notified();
                match next {
                    Some(next) => {
                        let _rung_or_due = tokio::time::timeout_at(Instant::into(next), rung).await;
                    }
                    None => rung.await,
                }
                // Binds open with a bell, so nothing is missed by waiting for the next one.
                next = match self.acting_term() {
                    Some(term) => self.preempt_round(term).await,
                    None => None,
                };
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }

    /// Returns when to look again even if nothing happens.
    async fn preempt_round(&self, term: u64) -> Option<Instant> {
        let preempts = self.0.config.preempt;
        let (steps, mut next) = {
            let mut state = self.0.state.write();
            // Claims that were left by an extender that did preempt.
            if !preempts {
                state.end_all_preemptions();
            }
            state.preemption_steps(now())
        };
        for (pod, step) in steps {
            self.carry_out(pod, step, term);
        }
        for _ in 0..DECISIONS_IN_A_ROW {
            let (contention, later) = {
                let state = self.0.state.read();
                if !preempts || !state.may_preempt_more() {
                    return next;
                }
                state.next_contender(now())
            };
            next = earlier(next, later);
            let Some(contention) = contention else {
                return next;
            };
            self.decide(contention, term).await;
        }
        Some(Instant::now())
    }
}
