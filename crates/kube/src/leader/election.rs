//! Taking part in the election: read the lease, do what the rule says, pause, again.

use std::convert::Infallible;
use std::time::Duration;

use crate::lease::{Claim, LeaseError, LeaseObject, Seen};
use gpushare_core::lease::{Candidate, Millis, Step, Timing};
use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Leadership, clock};

/// The lease to lead by, and who asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    /// Of this process alone: one that is started anew must not be taken for the one before.
    pub identity: String,
    pub timing: Timing,
}

/// One replica's part in the election.
#[derive(Debug)]
pub struct Candidacy {
    election: Election,
    object: LeaseObject,
    candidate: Candidate,
    leadership: Leadership,
    /// The lease as we last wrote it.
    held: Option<Seen>,
    /// The term of the last round.
    led: Option<u64>,
}

impl Candidacy {
    pub fn new(election: Election, client: Client, leadership: Leadership) -> Self {
        // A request that hangs must not keep the next attempt from being made in time.
        let limit = Duration::from_millis(election.timing.retry) * 3 / 4;
        let object = LeaseObject::new(client, &election.namespace, &election.name, limit);
        Self {
            candidate: Candidate::new(&election.identity, election.timing),
            object,
            election,
            leadership,
            held: None,
            led: None,
        }
    }

    /// Takes part until shutdown. Then waits until nothing that a leader may do is under way any more,
    /// and gives the lease back, so that the next replica need not wait for it to expire.
    ///
    /// `lost` is called whenever this replica has stopped leading.
    pub async fn run(
        mut self,
        shutdown: CancellationToken,
        quiet: impl Future<Output = ()>,
        lost: impl Fn(),
    ) -> Result<(), Infallible> {
        loop {
            let pause = match self.round().await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, leads = self.led.is_some(), "the lease is out of reach");
                    Duration::from_millis(self.election.timing.retry)
                }
            };
            self.tell(&lost);
            // Never cut short: a write given up half way could not be based on later.
            let pause = tokio::time::sleep(pause);
            if shutdown.run_until_cancelled(pause).await.is_none() {
                break;
            }
        }
        quiet.await;
        self.give_back().await;
        Ok(())
    }

    /// One look at the lease, and what follows from it. Answers how long to wait for the next.
    async fn round(&mut self) -> Result<Duration, LeaseError> {
        let Timing {
            retry, duration, ..
        } = self.election.timing;
        let seen = self.object.read().await?;
        let lease = seen.as_ref().map(|seen| seen.lease.clone());
        let step = self.candidate.step(clock(), lease);
        match (step, seen) {
            (Step::Wait(pause), _) => Ok(jittered(pause)),
            (Step::Create, _) | (Step::Take { .. }, None) => {
                self.object.create(duration).await?;
                Ok(Duration::ZERO)
            }
            (Step::Take { transitions }, Some(seen)) => {
                let claim = Claim {
                    identity: &self.election.identity,
                    transitions,
                    duration,
                };
                let began = clock();
                let taken = self.object.take(&seen, claim, Timestamp::now()).await?;
                if let Some(written) = taken {
                    self.candidate.wrote(began, written.lease.clone());
                    self.held = Some(written);
                } else {
                    tracing::info!("another replica was faster to take the lease");
                }
                Ok(Duration::from_millis(retry))
            }
        }
    }

    /// Publishes where we stand, and says so when it has changed.
    fn tell(&mut self, lost: &impl Fn()) {
        let holder = self.candidate.holder().unwrap_or_default();
        self.leadership.publish(self.candidate.term(), holder);
        let leads = self.leadership.term();
        if leads == self.led {
            return;
        }
        if let Some(term) = self.led {
            tracing::warn!(term, holder, "this replica does not lead any more");
            lost();
        }
        if let Some(term) = leads {
            let Election { identity, .. } = &self.election;
            tracing::info!(term, identity, "this replica leads");
        }
        self.led = leads;
    }

    /// Also of a term that has lapsed meanwhile: as long as nobody has changed the lease, it is ours.
    async fn give_back(&mut self) {
        self.candidate.resign();
        self.leadership.publish(None, "");
        let Some(held) = self.held.take() else {
            return;
        };
        match self.object.give_back(&held, Timestamp::now()).await {
            Ok(Some(_)) => tracing::info!("gave the lease back"),
            Ok(None) => tracing::info!("the lease was taken before it was given back"),
            Err(error) => {
                tracing::warn!(%error, "the lease is not given back; it expires by itself");
            }
        }
    }
}

/// Up to a fifth longer, so that replicas that wait for the same moment do not all ask at once.
fn jittered(pause: Millis) -> Duration {
    let random = u64::from_le_bytes(*Uuid::new_v4().as_bytes().first_chunk().unwrap_or(&[0; 8]));
    Duration::from_millis(pause + random % (pause / 5 + 1))
}
