//! Faults on demand: a test can make the server fail as a real API server sometimes does.
//!
//! A fault applies to certain requests and stays until it is used up or cleared. All faults that match a request act
//! on it in the order in which they were set; the first that ends the request ends the chain.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::failure::Failure;
use crate::registry::Registry;
use crate::request::{On, RequestInfo};
use crate::store::Ending;

/// A refusal that is sent instead of handling the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// 401, as for an expired token.
    Unauthorized,
    /// 403, as for a user without the right.
    Forbidden,
    /// 409, as when another client was faster.
    Conflict,
    /// 429 with `Retry-After`.
    TooManyRequests { retry_after_seconds: u32 },
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
}

impl Answer {
    fn failure(self) -> Failure {
        match self {
            Self::Unauthorized => Failure::unauthorized(),
            Self::Forbidden => Failure::fault_forbidden(),
            Self::Conflict => Failure::fault_conflict(),
            Self::TooManyRequests {
                retry_after_seconds,
            } => Failure::too_many_requests(
                "the server has received too many requests and has asked us to try again later",
                Some(retry_after_seconds),
            ),
            Self::InternalError => Failure::internal("fault on demand"),
            Self::Unavailable => {
                Failure::unavailable("the server is currently unable to handle the request")
            }
        }
    }
}

/// How often a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// For this many of the next requests.
    Next(usize),
    /// For every request until cleared.
    Always,
}

/// Sets faults on one server.
#[derive(Debug, Clone)]
pub struct Faults {
    registry: Arc<Registry>,
    rules: Arc<Mutex<Vec<Rule>>>,
}

#[derive(Debug, Clone)]
struct Rule {
    on: On,
    effect: Effect,
    left: Times,
    hits: Arc<AtomicUsize>,
}

#[derive(Debug, Clone)]
enum Effect {
    Delay(Duration),
    Answer(Answer),
    CutBefore,
    CutAfter,
    HoldBefore(Arc<GateState>),
    HoldAfter(Arc<GateState>),
}

impl Effect {
    fn is_before(&self) -> bool {
        !matches!(self, Self::CutAfter | Self::HoldAfter(_))
    }
}

/// A fault that was set.
#[derive(Debug, Clone)]
pub struct Fault {
    rules: Arc<Mutex<Vec<Rule>>>,
    hits: Arc<AtomicUsize>,
}

impl Fault {
    /// How many requests the fault has affected.
    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::Acquire)
    }

    /// Removes the fault; requests that it already holds or delays are not affected.
    pub fn clear(&self) {
        self.rules
            .lock()
            .retain(|rule| !Arc::ptr_eq(&rule.hits, &self.hits));
    }
}

/// Holds requests at a point until the test releases them. Dropping it releases them too.
#[derive(Debug)]
pub struct Gate {
    state: Arc<GateState>,
    fault: Fault,
}

#[derive(Debug)]
struct GateState {
    arrived: watch::Sender<usize>,
    held: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

/// Counts a request as held by a gate, until the gate opens or the client disconnects.
struct Stay<'g>(&'g GateState);

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.0.held.send_modify(|count| *count -= 1);
    }
}

impl GateState {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            arrived: watch::Sender::new(0),
            held: watch::Sender::new(0),
            open: watch::Sender::new(false),
        })
    }

    async fn pass(&self) {
        self.held.send_modify(|count| *count += 1);
        let _stay = Stay(self);
        self.arrived.send_modify(|count| *count += 1);
        // The sender lives as long as self, so this ends only when the gate opens.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

impl Gate {
    /// Waits until this many requests have arrived at the gate.
    pub async fn reached(&self, count: usize) {
        let _ = self
            .state
            .arrived
            .subscribe()
            .wait_for(|arrived| *arrived >= count)
            .await;
    }

    /// How many requests have arrived at the gate.
    pub fn arrived(&self) -> usize {
        *self.state.arrived.borrow()
    }

    /// Waits until no request is held any more, because it was released or its client has disconnected. A request that
    /// was held before its effect never takes effect if its client disconnects.
    pub async fn emptied(&self) {
        let _ = self
            .state
            .held
            .subscribe()
            .wait_for(|held| *held == 0)
            .await;
    }

    /// Releases all held requests and opens the gate for good.
    pub fn release(&self) {
        self.fault.clear();
        self.state.open.send_replace(true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.release();
    }
}

/// What the faults do to a request.
#[derive(Debug)]
pub(crate) enum Fate {
    Proceed,
    Refuse(Failure),
    Cut,
}

impl Faults {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            rules: Arc::default(),
        }
    }

    /// Ends every open watch, as a server does at its own timeout, and returns how many there were.
    pub fn drop_watches(&self) -> usize {
        self.registry.store().end_watches(Ending::Clean)
    }

    /// Ends every open watch by breaking its connection, and returns how many there were.
    pub fn cut_watches(&self) -> usize {
        self.registry.store().end_watches(Ending::Severed)
    }

    /// How many watches are open now.
    pub fn open_watches(&self) -> usize {
        self.registry.store().watches()
    }

    /// Forgets all history: a watch that resumes from an earlier version gets 410 Gone.
    pub fn expire_history(&self) {
        self.registry.store().expire_history();
    }

    /// Delays matching requests before they are handled.
    pub fn delay(&self, on: On, times: Times, by: Duration) -> Fault {
        self.add(on, times, Effect::Delay(by))
    }

    /// Refuses matching requests; nothing is written.
    pub fn answer(&self, on: On, times: Times, answer: Answer) -> Fault {
        self.add(on, times, Effect::Answer(answer))
    }

    /// Breaks the connection before the request has any effect.
    pub fn cut_before(&self, on: On, times: Times) -> Fault {
        self.add(on, times, Effect::CutBefore)
    }

    /// Handles the request, and breaks the connection instead of answering.
    pub fn cut_after(&self, on: On, times: Times) -> Fault {
        self.add(on, times, Effect::CutAfter)
    }

    /// Holds matching requests before they have any effect.
    pub fn hold_before(&self, on: On) -> Gate {
        let state = GateState::new();
        let fault = self.add(on, Times::Always, Effect::HoldBefore(Arc::clone(&state)));
        Gate { state, fault }
    }

    /// Holds matching requests after they took effect and before they are answered.
    pub fn hold_after(&self, on: On) -> Gate {
        let state = GateState::new();
        let fault = self.add(on, Times::Always, Effect::HoldAfter(Arc::clone(&state)));
        Gate { state, fault }
    }

    /// Removes all faults. Held requests stay held until their gate is released.
    pub fn clear(&self) {
        self.rules.lock().clear();
    }

    fn add(&self, on: On, left: Times, effect: Effect) -> Fault {
        let hits = Arc::new(AtomicUsize::new(0));
        self.rules.lock().push(Rule {
            on,
            effect,
            left,
            hits: Arc::clone(&hits),
        });
        Fault {
            rules: Arc::clone(&self.rules),
            hits,
        }
    }

    pub(crate) async fn before(&self, request: &RequestInfo) -> Fate {
        for effect in self.strike(request, true) {
            match effect {
                Effect::Delay(by) => tokio::time::sleep(by).await,
                Effect::HoldBefore(gate) => gate.pass().await,
                Effect::Answer(answer) => return Fate::Refuse(answer.failure()),
                Effect::CutBefore => return Fate::Cut,
                Effect::CutAfter | Effect::HoldAfter(_) => {}
            }
        }
        Fate::Proceed
    }

    pub(crate) async fn after(&self, request: &RequestInfo) -> Fate {
        for effect in self.strike(request, false) {
            match effect {
                Effect::HoldAfter(gate) => gate.pass().await,
                Effect::CutAfter => return Fate::Cut,
                _ => {}
            }
        }
        Fate::Proceed
    }

    /// The effects of the matching faults of one stage, each counted as used.
    fn strike(&self, request: &RequestInfo, before: bool) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut rules = self.rules.lock();
        rules.retain_mut(|rule| {
            if rule.effect.is_before() != before || !rule.on.matches(request) {
                return true;
            }
            match &mut rule.left {
                Times::Next(0) => return false,
                Times::Next(left) => *left -= 1,
                Times::Always => {}
            }
            rule.hits.fetch_add(1, Ordering::AcqRel);
            effects.push(rule.effect.clone());
            rule.left != Times::Next(0)
        });
        effects
    }
}
