//! Whether this replica leads: one answer for everything that only one replica may do.
//!
//! [`Leadership`] is checked before each such action, and reads the clock each time. So a leader that could not renew
//! its lease stops at its deadline, even if the task that renews it hangs. The rule is in [`gpushare_core::lease`];
//! [`election`] applies it to the API server's lease.

pub mod election;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use gpushare_core::lease::{Millis, Term};
use gpushare_daemon::metrics::{Catalogue, Reading};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

const IS_LEADER: Reading =
    Reading::plain("is_leader", "1 if this replica is the leader, otherwise 0");

/// Whether this replica leads; clones share the answer.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    standing: watch::Sender<Standing>,
    terms: Counter,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    /// This replica's term; it may have lapsed.
    term: Option<Term>,
    /// The holder of the lease; empty if there is none.
    holder: String,
}

impl Leadership {
    /// For a process without other replicas: it always leads.
    pub fn alone() -> Self {
        let forever = Term {
            number: 1,
            until: Millis::MAX,
        };
        Self::new(Standing {
            term: Some(forever),
            holder: String::new(),
        })
    }

    /// For a replica that does not lead yet.
    pub fn following() -> Self {
        Self::new(Standing::default())
    }

    fn new(standing: Standing) -> Self {
        Self(Arc::new(Shared {
            standing: watch::Sender::new(standing),
            terms: Counter::default(),
        }))
    }

    /// The term in which this replica leads right now.
    pub fn term(&self) -> Option<u64> {
        let standing = self.0.standing.borrow();
        standing.now().map(|term| term.number)
    }

    /// The current term, or why this replica must not act.
    pub fn required(&self) -> Result<u64, NotLeaderError> {
        self.term().ok_or_else(|| NotLeaderError {
            holder: self.0.standing.borrow().holder.clone(),
        })
    }

    /// Waits until the given term is over.
    pub async fn ended(&self, term: u64) {
        let mut standing = self.0.standing.subscribe();
        loop {
            let now = standing.borrow_and_update().now();
            let Some(Term { until, .. }) = now.filter(|now| now.number == term) else {
                return;
            };
            let left = Duration::from_millis(until.saturating_sub(clock()));
            // Once the sender is gone nothing changes any more, and the timeout ends the term.
            let _changed_or_late = tokio::time::timeout(left, standing.changed()).await;
        }
    }

    /// Each term when it begins, including the current one.
    pub fn terms(&self) -> impl Stream<Item = u64> + Send + Unpin + use<> {
        let changes = (self.0.standing.subscribe(), 0);
        Box::pin(stream::unfold(changes, async |(mut standing, last)| {
            let new = |standing: &Standing| {
                let term = standing.now().map(|term| term.number);
                term.filter(|number| *number != last)
            };
            let number = {
                let begun = standing.wait_for(|standing| new(standing).is_some()).await;
                new(&*begun.ok()?)?
            };
            Some((number, (standing, number)))
        }))
    }

    /// Shows in the metrics whether this replica leads, and how often it has begun to lead.
    pub fn register(&self, catalogue: &mut Catalogue) {
        let help = "How often this replica became the leader";
        catalogue.add_made("leader_transitions", help, self.0.terms.clone());
        catalogue.read(&[IS_LEADER], Box::new(self.clone()));
    }

    fn publish(&self, term: Option<Term>, holder: &str) {
        self.0.standing.send_if_modified(|standing| {
            if standing.term == term && standing.holder == holder {
                return false;
            }
            let number = |term: Option<Term>| term.map(|term| term.number);
            if term.is_some() && number(standing.term) != number(term) {
                self.0.terms.inc();
            }
            holder.clone_into(&mut standing.holder);
            standing.term = term;
            true
        });
    }
}

impl Standing {
    /// The term, unless it has lapsed.
    fn now(&self) -> Option<Term> {
        self.term.filter(|term| clock() < term.until)
    }
}

impl Collector for Leadership {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let leads = i64::from(self.term().is_some());
        IS_LEADER.encode(&mut encoder)?.encode_gauge(&leads)
    }
}

/// Another replica leads, or none does yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLeaderError {
    holder: String,
}

impl fmt::Display for NotLeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holder.as_str() {
            "" => f.write_str("this replica does not lead, and no other does yet"),
            holder => write!(
                f,
                "this replica does not lead; the lease is held by {holder}"
            ),
        }
    }
}

impl std::error::Error for NotLeaderError {}

/// A clock that never goes back and, unlike [`std::time::Instant`], keeps running while the machine is suspended. So
/// a leader that resumes knows how much time has passed.
fn clock() -> Millis {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1000) + nanos.unwrap_or(0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    fn lead(leadership: &Leadership, number: u64, left: Millis) {
        let until = clock() + left;
        leadership.publish(Some(Term { number, until }), "me");
    }

    const LONG: Millis = 600_000;

    #[test]
    fn a_process_alone_leads() {
        assert_eq!(Leadership::alone().term(), Some(1));
    }

    #[tokio::test]
    async fn a_term_ends_by_itself_when_nobody_renews_it() {
        let leadership = Leadership::following();
        lead(&leadership, 1, 50);
        leadership.ended(1).await;
        assert_eq!(leadership.term(), None);
    }

    #[tokio::test]
    async fn a_renewal_does_not_end_a_term_and_another_holder_does() {
        let leadership = Leadership::following();
        lead(&leadership, 1, LONG);
        let ended = {
            let leadership = leadership.clone();
            tokio::spawn(async move { leadership.ended(1).await })
        };
        lead(&leadership, 1, 2 * LONG);
        tokio::task::yield_now().await;
        assert!(!ended.is_finished());
        leadership.publish(None, "other");
        ended.await.unwrap();
        let reason = leadership.required().unwrap_err().to_string();
        assert!(reason.contains("held by other"), "{reason}");
    }

    #[tokio::test]
    async fn every_term_is_told_once() {
        let leadership = Leadership::following();
        let mut terms = leadership.terms();
        lead(&leadership, 1, LONG);
        assert_eq!(terms.next().await, Some(1));
        lead(&leadership, 1, 2 * LONG);
        leadership.publish(None, "other");
        lead(&leadership, 2, LONG);
        assert_eq!(terms.next().await, Some(2));
        assert_eq!(leadership.0.terms.get(), 2);
        assert_eq!(Leadership::alone().terms().next().await, Some(1));
    }
}
