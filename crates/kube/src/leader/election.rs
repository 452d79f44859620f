//! Taking part in the election: read the lease, do what the rule says, pause, repeat.

use std::convert::Infallible;
use std::time::Duration;

use crate::lease::{Claim, LeaseError, LeaseObject, ObservedLease};
use gpushare_core::lease::{Candidate, Millis, Step, Timing};
use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Leadership, clock};

/// The lease that decides who leads, and the candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    /// Unique to this process: a restarted one must not be mistaken for its predecessor.
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
    held: Option<ObservedLease>,
    /// The term of the last round.
    led: Option<u64>,
}

impl Candidacy {
    pub fn new(election: Election, client: Client, leadership: Leadership) -> Self {
        // A request that hangs must not delay the next attempt.
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

    /// Takes part until shutdown. Then waits until nothing that only a leader may do is under way,
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
            // Shutdown interrupts only the pause, never a round: no later write could build on one that was cut off.
            let pause = tokio::time::sleep(pause);
            if shutdown.run_until_cancelled(pause).await.is_none() {
                break;
            }
        }
        quiet.await;
        self.give_back().await;
        Ok(())
    }

    /// Reads the lease once and acts on it. Returns how long to wait before the next round.
    async fn round(&mut self) -> Result<Duration, LeaseError> {
        let Timing {
            retry, duration, ..
        } = self.election.timing;
        let observed = self.object.read().await?;
        let lease = observed.as_ref().map(|observed| observed.lease.clone());
        let step = self.candidate.step(clock(), lease);
        match (step, observed) {
            (Step::Wait(pause), _) => Ok(jittered(pause)),
            (Step::Create, _) | (Step::Take { .. }, None) => {
                self.object.create(duration).await?;
                Ok(Duration::ZERO)
            }
            (Step::Take { transitions }, Some(observed)) => {
                let claim = Claim {
                    identity: &self.election.identity,
                    transitions,
                    duration,
                };
                let began = clock();
                let taken = self.object.take(&observed, claim, Timestamp::now()).await?;
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

    /// Publishes whether this replica leads, and logs it when that has changed.
    fn tell(&mut self, lost: &impl Fn()) {
        let holder = self.candidate.holder().unwrap_or_default();
        self.leadership.publish(self.candidate.term(), holder);
        let leads = self.leadership.term();
        if leads == self.led {
            return;
        }
        if let Some(term) = self.led {
            tracing::warn!(term, holder, "this replica no longer leads");
            lost();
        }
        if let Some(term) = leads {
            let Election { identity, .. } = &self.election;
            tracing::info!(term, identity, "this replica leads");
        }
        self.led = leads;
    }

    /// Gives the lease back, even if the term has lapsed: as long as no other replica has changed it, it is ours.
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

/// Up to a fifth longer, so that replicas that wait for the same moment do not all send requests at once.
fn jittered(pause: Millis) -> Duration {
    let random = u64::from_le_bytes(*Uuid::new_v4().as_bytes().first_chunk().unwrap_or(&[0; 8]));
    Duration::from_millis(pause + random % (pause / 5 + 1))
}
