//! Who leads: one candidate's view of a shared lease, as a state machine without clock or network.
//!
//! The rule is the one client-go proved: a candidate never compares the times written in the lease with
//! its own clock. It measures, on its own steady clock, how long the lease has not changed. A follower
//! takes over when that has lasted longer than the lease's duration; a leader stops leading
//! `renew_deadline` after it *began* its last successful write. As that deadline is shorter than the
//! duration and the follower saw the write later than it began, the two never overlap, as long as the
//! clocks run at nearly the same speed. Every write carries the version it was based on, so of two
//! candidates one loses.

/// Milliseconds on a steady clock of this process; only differences mean anything.
pub type Millis = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long an unchanged lease keeps others away.
    pub duration: Millis,
    /// How long after its last renewal a leader still acts as one. Must be shorter than `duration`.
    pub renew_deadline: Millis,
    /// Pause between two attempts.
    pub retry: Millis,
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

/// What the shared object says, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Empty when it was given back.
    pub holder: String,
    /// Changes with every write, even by the same holder.
    pub renewals: String,
    /// How often the holder has changed: the epoch that fences durable writes.
    pub transitions: u64,
    /// The holder's own duration, which followers respect.
    pub duration: Millis,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again after this pause.
    Wait(Millis),
    /// No lease exists: create it with this number of transitions.
    Create { transitions: u64 },
    /// Write ourselves as its holder, on condition that it is still as it was read.
    Take { transitions: u64 },
}

#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    timing: Timing,
    seen: Option<(Lease, Millis)>,
    renewed_at: Option<Millis>,
}

impl Candidate {
    pub fn new(identity: impl Into<String>, timing: Timing) -> Self {
        Self {
            identity: identity.into(),
            timing,
            seen: None,
            renewed_at: None,
        }
    }

    /// Takes in what was just read and says what to do about it.
    pub fn step(&mut self, now: Millis, read: Option<Lease>) -> Step {
        let Some(lease) = read else {
            self.seen = None;
            self.renewed_at = None;
            return Step::Create { transitions: 0 };
        };
        let unchanged_since = match &self.seen {
            Some((before, since)) if *before == lease => *since,
            _ => now,
        };
        let ours = lease.holder == self.identity;
        let age = now.saturating_sub(unchanged_since);
        let duration = lease.duration.max(self.timing.duration);
        let transitions = lease.transitions;
        let free = lease.holder.is_empty() || age > duration;
        self.seen = Some((lease, unchanged_since));
        if !ours {
            self.renewed_at = None;
        }
        match (ours, free) {
            // A name that survived a restart is not a term that did: it counts as a new one.
            (true, _) if self.renewed_at.is_none() => Step::Take {
                transitions: transitions.saturating_add(1),
            },
            (true, _) => Step::Take { transitions },
            (false, true) => Step::Take {
                transitions: transitions.saturating_add(1),
            },
            (false, false) => Step::Wait(self.timing.retry.min((duration - age).saturating_add(1))),
        }
    }

    /// The write that [`Self::step`] asked for succeeded; `began` is when it was sent, not answered.
    pub fn wrote(&mut self, began: Millis, written: Lease) {
        self.renewed_at = Some(began);
        self.seen = Some((written, began));
    }

    /// Whether this candidate may act as the leader at this moment.
    pub fn leads(&self, now: Millis) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// The moment at which leadership ends unless it is renewed.
    pub fn leads_until(&self) -> Option<Millis> {
        self.renewed_at
            .map(|at| at.saturating_add(self.timing.renew_deadline))
    }

    /// The fencing epoch of the current term.
    pub fn epoch(&self) -> Option<u64> {
        self.renewed_at?;
        self.seen.as_ref().map(|(lease, _)| lease.transitions)
    }
}
