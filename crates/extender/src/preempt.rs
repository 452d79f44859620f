//! Card-level preemption: pods of lower rank are evicted so that a pod fits that no card can take.
//!
//! kube-scheduler sees a node's totals, not its cards. Where the totals suffice but no single card does, it finds no
//! victims and does not call the extender. So the extender looks for victims for every refused pod that outranks
//! another pod ([`decide`]), and carries out the evictions ([`carry`]). Where the totals do not suffice,
//! kube-scheduler looks for victims and calls [`verb`] with them. Both ways lead to the same kind of claim, and a pod
//! has at most one. kube-scheduler compares priorities only. If a pod outranks others only because they are over
//! budget, the extender looks for victims on those nodes too.
//!
//! The books (`crates/books`) decide what is done; this module only talks to the API server, and only
//! in the leader.

mod carry;
mod decide;
mod verb;
mod wire;

use std::convert::Infallible;
use std::time::Instant;

use gpushare_books::preemptions::Now;

use super::Extender;

pub(super) use verb::answer_preempt;

/// The most decisions before the preemptions under way are looked at again.
const DECISIONS_IN_A_ROW: usize = 8;

fn now() -> Now {
    Now {
        instant: Instant::now(),
        millis: jiff::Timestamp::now().as_millisecond(),
    }
}

/// Runs work that may take a while on a blocking thread.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.map_err(|error| error.to_string())
}

/// Why it is not known which pods would have to go.
fn undecided(steps: u32) -> String {
    format!(
        "within {steps} steps it was not found out who would have to go: the pod asks in too many containers"
    )
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

impl Extender {
    /// Preempts for every pod that may, until shutdown.
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
                // The bell also rings when binds open, so a term that cannot act yet is not missed.
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
            let mut books = self.0.books.write();
            // Ends claims left by an extender that had preemption enabled.
            if !preempts {
                books.end_all_preemptions();
            }
            books.preemption_steps(now())
        };
        for (pod, step) in steps {
            self.carry_out(pod, step, term);
        }
        for _ in 0..DECISIONS_IN_A_ROW {
            let (contention, later) = {
                let books = self.0.books.read();
                if !preempts || !books.preemptions().may_begin_more() {
                    return next;
                }
                books.next_contender(now())
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
