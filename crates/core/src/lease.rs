//! Who leads: one candidate's view of a shared lease, as a state machine without clock or network.
//!
//! The rule is the same as in client-go: a candidate never compares the times written in the lease with
//! its own clock. It measures, on its own steady clock, how long the lease has not changed. A follower
//! takes over when the lease has been unchanged for longer than its duration; a leader stops leading
//! `renew_deadline` after it *began* its last successful write. Every write carries the version it was
//! based on, so only one of two competing writes succeeds.
//!
//! ```text
//! leader    writes ─────── leads ───────┤ stops; what it began last has ended ┤
//!                                 renew_deadline                        + longest_write
//! follower    sees the write ───────────────── unchanged for the duration ─────────────┤ leads
//! ```
//!
//! [`Timing::check`] ensures that the leader's last write is over before the follower's wait ends. So a
//! new leader knows, without having to ask, that everything an earlier leader had begun is over. Only
//! releasing the lease shortens the wait, and a leader releases it only when it has nothing under way
//! any more. A lease that was deleted, or whose holder was removed by hand, says nothing about its last
//! leader. A deleted lease is recreated without a holder, and in both cases candidates wait for the
//! full duration.

use thiserror::Error;

/// Milliseconds on a steady clock of this process; only differences mean anything.
pub type Millis = u64;

/// One part in this many of the lease's duration is a reserve for clocks that differ in speed.
const CLOCK_PARTS: Millis = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long an unchanged lease keeps others away.
    pub duration: Millis,
    /// How long after the start of its last renewal a leader still acts as one.
    pub renew_deadline: Millis,
    /// The pause between two attempts.
    pub retry: Millis,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TimingError {
    #[error("the lease's duration must be a whole number of seconds, not {0} ms")]
    Fraction(Millis),
    #[error(
        "the retry of {retry} ms must be above zero and at most a third of the renew deadline \
         of {renew_deadline} ms, so that one failed renewal does not end the leadership"
    )]
    Retry {
        retry: Millis,
        renew_deadline: Millis,
    },
    #[error(
        "a leader acts for {renew_deadline} ms after a renewal, and what it began last may take \
         {longest_write} ms more: the lease's duration of {duration} ms must be at least {needed} ms"
    )]
    TooShort {
        duration: Millis,
        renew_deadline: Millis,
        longest_write: Millis,
        needed: Millis,
    },
}

impl Timing {
    /// Whether a leader's last write is over before another candidate can lead. `longest_write` is how
    /// long after its start a write of the leader can still take effect.
    pub fn check(&self, longest_write: Millis) -> Result<(), TimingError> {
        let Self {
            duration,
            renew_deadline,
            retry,
        } = *self;
        if duration == 0 || !duration.is_multiple_of(1000) {
            return Err(TimingError::Fraction(duration));
        }
        if retry == 0 || retry.saturating_mul(3) > renew_deadline {
            return Err(TimingError::Retry {
                retry,
                renew_deadline,
            });
        }
        let acts = renew_deadline.saturating_add(longest_write);
        let needed = acts.saturating_add(acts / (CLOCK_PARTS - 1) + 1);
        if duration < needed {
            return Err(TimingError::TooShort {
                duration,
                renew_deadline,
                longest_write,
                needed,
            });
        }
        Ok(())
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            duration: 15_000,
            renew_deadline: 10_000,
            retry: 2_000,
        }
    }
}

/// The fields of the shared Lease object that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Empty if no candidate holds it.
    pub holder: String,
    /// Changes with every write, even by the same holder.
    pub renewals: String,
    /// How many terms have begun since the lease was created; deleting the lease resets it.
    pub transitions: u64,
    /// How long the unchanged lease keeps others away, as its holder configured it. `None` if it was
    /// released.
    pub duration: Option<Millis>,
}

/// What the candidate must do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again after this pause.
    Wait(Millis),
    /// No lease exists: create it without a holder, and look again.
    Create,
    /// Write ourselves as the holder, on condition that the lease has not changed since it was read.
    Take { transitions: u64 },
}

/// The right to act as the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The number of the term among this candidate's terms, counted from one.
    pub number: u64,
    /// When the right ends unless it is renewed.
    pub until: Millis,
}

#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    timing: Timing,
    seen: Option<(Lease, Millis)>,
    renewed_at: Option<Millis>,
    terms: u64,
    /// Whether this process has tried to take the lease. If it has not, a lease with our name was
    /// written by an earlier process of that name.
    asked: bool,
}

impl Candidate {
    /// `identity` must be a name that no other living candidate has.
    pub fn new(identity: impl Into<String>, timing: Timing) -> Self {
        Self {
            identity: identity.into(),
            timing,
            seen: None,
            renewed_at: None,
            terms: 0,
            asked: false,
        }
    }

    /// Takes the lease that was just read (`None` if there is none) and returns what to do next.
    pub fn step(&mut self, now: Millis, read: Option<Lease>) -> Step {
        let Some(lease) = read else {
            self.seen = None;
            self.renewed_at = None;
            return Step::Create;
        };
        let unchanged_since = match &self.seen {
            Some((before, since)) if *before == lease => *since,
            _ => now,
        };
        let age = now.saturating_sub(unchanged_since);
        let duration = lease.duration.map(|own| own.max(self.timing.duration));
        let ours = self.asked && lease.holder == self.identity;
        let transitions = lease.transitions;
        self.seen = Some((lease, unchanged_since));
        // A term that has lapsed is over, even if no other candidate has taken the lease.
        if !ours || !self.leads(now) {
            self.renewed_at = None;
        }
        let new_term = Step::Take {
            transitions: transitions.saturating_add(1),
        };
        let step = match duration {
            _ if ours && self.renewed_at.is_some() => Step::Take { transitions },
            _ if ours => new_term,
            Some(duration) if age <= duration => {
                let rest = (duration - age).saturating_add(1);
                Step::Wait(self.timing.retry.min(rest))
            }
            _ => new_term,
        };
        self.asked |= matches!(step, Step::Take { .. });
        step
    }

    /// The write that [`Self::step`] asked for succeeded; `began` is when it was sent, not answered.
    pub fn wrote(&mut self, began: Millis, written: Lease) {
        if self.renewed_at.replace(began).is_none() {
            self.terms = self.terms.saturating_add(1);
        }
        self.seen = Some((written, began));
    }

    /// Stops leading at once. Call it before releasing the lease.
    pub fn resign(&mut self) {
        self.renewed_at = None;
        self.asked = false;
    }

    /// Whether this candidate may act as the leader at this moment.
    pub fn leads(&self, now: Millis) -> bool {
        self.term().is_some_and(|term| now < term.until)
    }

    /// The latest term, which may have lapsed.
    pub fn term(&self) -> Option<Term> {
        let renewed_at = self.renewed_at?;
        Some(Term {
            number: self.terms,
            until: renewed_at.saturating_add(self.timing.renew_deadline),
        })
    }

    /// The holder of the lease when it was last read; empty if no candidate held it.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().map(|(lease, _)| lease.holder.as_str())
    }
}
