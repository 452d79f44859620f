//! The answer of filter: every candidate is offered, or refused with a reason.
//!
//! In a large cluster most refusals are alike: each different one is written out once, and all nodes
//! share it. The answer is then written straight from what was asked, without a map in between.

use std::collections::BTreeMap;
use std::fmt::Display;

use gpushare_core::Why;
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::wire::Candidates;

/// Every reason that a user reads in an event begins with this.
const PREFIX: &str = "gpushare: ";
/// Room made for an answer before it is written.
const LARGEST_RESERVATION: usize = 16 * 1024 * 1024;

/// Why a node, or all of them, were not offered; for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotReady,
    InvalidRequest,
    NoCards,
    NoRoom,
    /// The pod is bound, being bound, or held by a bind in doubt.
    Held,
}

#[derive(Debug)]
pub(super) struct Answer<'a> {
    candidates: &'a Candidates<'a>,
    /// For each candidate in turn, the place of its reason; none where it is offered.
    verdicts: Vec<Option<usize>>,
    reasons: Vec<Reason>,
    known: BTreeMap<Why, usize>,
    /// The place of the one candidate that is offered, where the others are not spoken of.
    only: Option<usize>,
    is_error: bool,
}

/// A reason as the user reads it, and for how many nodes.
#[derive(Debug)]
struct Reason {
    text: String,
    json: Box<RawValue>,
    refusal: Refusal,
    nodes: u64,
}

impl Reason {
    fn new(reason: &impl Display, refusal: Refusal, nodes: usize) -> Self {
        let text = format!("{PREFIX}{reason}");
        let json = to_raw_value(&text).unwrap_or_else(|_| unreachable!("text is always JSON"));
        Self {
            text,
            json,
            refusal,
            nodes: nodes as u64,
        }
    }
}

impl Refusal {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::NotReady => "not_ready",
            Self::InvalidRequest => "invalid_request",
            Self::NoCards => "no_cards",
            Self::NoRoom => "no_room",
            Self::Held => "held",
        }
    }
}

impl<'a> Answer<'a> {
    /// Asks `refuses` about each candidate in turn.
    pub(super) fn of(
        candidates: &'a Candidates<'a>,
        mut refuses: impl FnMut(&str) -> Option<Why>,
    ) -> Self {
        let mut answer = Self::empty(candidates);
        answer.verdicts.reserve_exact(candidates.len());
        for name in candidates.names() {
            let verdict = refuses(name).map(|why| answer.place_of(why));
            answer.verdicts.push(verdict);
        }
        answer
    }

    /// Offers every candidate.
    pub(super) fn offering_all(candidates: &'a Candidates<'a>) -> Self {
        Self::of(candidates, |_| None)
    }

    /// Offers one candidate and says nothing of the others: nobody asks why, as this one will do.
    pub(super) fn offering_only(candidates: &'a Candidates<'a>, best: &str) -> Self {
        let mut answer = Self::empty(candidates);
        answer.only = candidates.names().position(|name| name == best);
        answer
    }

    /// Refuses every candidate for one reason.
    pub(super) fn refusing_all(
        candidates: &'a Candidates<'a>,
        reason: &impl Display,
        refusal: Refusal,
    ) -> Self {
        let all = candidates.len();
        Self {
            verdicts: vec![Some(0); all],
            reasons: vec![Reason::new(reason, refusal, all)],
            ..Self::empty(candidates)
        }
    }

    /// Offers and refuses nothing: the scheduler tries again soon.
    pub(super) fn error(
        candidates: &'a Candidates<'a>,
        reason: &impl Display,
        refusal: Refusal,
    ) -> Self {
        Self {
            reasons: vec![Reason::new(reason, refusal, 1)],
            is_error: true,
            ..Self::empty(candidates)
        }
    }

    /// The first reason as an error.
    pub(super) fn into_error(mut self) -> Self {
        self.is_error = true;
        self.verdicts.clear();
        self.reasons.truncate(1);
        for reason in &mut self.reasons {
            reason.nodes = 1;
        }
        self
    }

    fn empty(candidates: &'a Candidates<'a>) -> Self {
        Self {
            candidates,
            verdicts: Vec::new(),
            reasons: Vec::new(),
            known: BTreeMap::new(),
            only: None,
            is_error: false,
        }
    }

    fn place_of(&mut self, why: Why) -> usize {
        if let Some(place) = self.known.get(&why) {
            if let Some(reason) = self.reasons.get_mut(*place) {
                reason.nodes += 1;
            }
            return *place;
        }
        let place = self.reasons.len();
        self.reasons.push(Reason::new(&why, kind(&why), 1));
        self.known.insert(why, place);
        place
    }

    pub(super) fn asked(&self) -> usize {
        self.candidates.len()
    }

    pub(super) fn refused(&self) -> usize {
        self.verdicts.iter().flatten().count()
    }

    /// How many nodes were refused, reason by reason.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (Refusal, u64)> {
        let reasons = self.reasons.iter();
        reasons.map(|reason| (reason.refusal, reason.nodes))
    }

    /// Whether the scheduler reads a refusal of every node, and lets the pod wait.
    pub(super) fn refuses_all(&self) -> bool {
        !self.is_error && self.asked() > 0 && self.refused() == self.asked()
    }

    /// One reason, if no node is offered.
    pub(super) fn why_none(&self) -> Option<&str> {
        let none = self.is_error || self.refused() == self.asked();
        let first = self.reasons.first().filter(|_| none);
        first.map(|reason| reason.text.as_str())
    }

    pub(super) fn write(&self) -> serde_json::Result<Vec<u8>> {
        let reasons = self.reasons.iter().map(|reason| {
            let nodes = usize::try_from(reason.nodes).unwrap_or(usize::MAX);
            nodes.saturating_mul(reason.json.get().len() + 4)
        });
        // About right, so that a large answer is not moved while it is written.
        let names = match self.only {
            Some(_) => 0,
            None => self.candidates.written_size(),
        };
        let size = reasons.fold(names, usize::saturating_add);
        let mut text = Vec::with_capacity(size.saturating_add(256).min(LARGEST_RESERVATION));
        serde_json::to_writer(&mut text, self)?;
        Ok(text)
    }

    fn offered<T>(&self, all: &'a [T]) -> impl Iterator<Item = &'a T> {
        let offered = self.verdicts.iter().map(Option::is_none);
        all.iter()
            .zip(offered)
            .filter(|(_, offered)| *offered)
            .map(|(one, _)| one)
            .chain(self.only.and_then(|at| all.get(at)))
    }

    fn reasons(&self) -> impl Iterator<Item = (&'a str, &RawValue)> {
        let verdicts = self.candidates.names().zip(&self.verdicts);
        verdicts.filter_map(|(name, verdict)| {
            let reason = self.reasons.get((*verdict)?)?;
            Some((name, &*reason.json))
        })
    }
}

/// As Kubernetes' `ExtenderFilterResult`.
impl Serialize for Answer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut result = serializer.serialize_struct("ExtenderFilterResult", 4)?;
        if !self.is_error {
            match self.candidates.whole() {
                None => {
                    let names = Sequence(|| self.offered(self.candidates.all_names()));
                    result.serialize_field("NodeNames", &names)?;
                }
                Some(nodes) => {
                    let items = Sequence(|| self.offered(nodes));
                    result.serialize_field("Nodes", &NodeList::of(items))?;
                }
            }
        }
        // Never used: the scheduler would try to preempt there, which cannot help.
        result.serialize_field("FailedNodes", &Empty {})?;
        result.serialize_field("FailedAndUnresolvableNodes", &Map(|| self.reasons()))?;
        let error = self.reasons.first().filter(|_| self.is_error);
        let error = error.map_or("", |reason| &reason.text);
        result.serialize_field("Error", error)?;
        result.end()
    }
}

fn kind(why: &Why) -> Refusal {
    match why {
        Why::NoCards { .. } => Refusal::NoCards,
        Why::TooSmall { .. } | Why::Blocked { .. } => Refusal::NoRoom,
        Why::BindInProgress { .. } | Why::HeldElsewhere { .. } | Why::AlreadyBound { .. } => {
            Refusal::Held
        }
    }
}

/// Nodes in the form in which whole ones came.
#[derive(Serialize)]
struct NodeList<T> {
    metadata: Empty,
    items: T,
}

#[derive(Serialize)]
struct Empty {}

impl<T> NodeList<T> {
    fn of(items: T) -> Self {
        Self {
            metadata: Empty {},
            items,
        }
    }
}

/// A JSON array, written as it is walked through.
struct Sequence<F>(F);

impl<F, I> Serialize for Sequence<F>
where
    F: Fn() -> I,
    I: IntoIterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// A JSON object, written as it is walked through.
struct Map<F>(F);

impl<F, I, K, V> Serialize for Map<F>
where
    F: Fn() -> I,
    I: IntoIterator<Item = (K, V)>,
    K: Serialize,
    V: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map((self.0)())
    }
}

#[cfg(test)]
mod tests;
