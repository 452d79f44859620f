//! The answer of filter: every candidate is offered, or refused with a reason.
//!
//! The answer is serialized directly from the request's candidates, without an intermediate map.

use std::fmt::Display;

use gpushare_books::reasons::{Reason, Reasons, Refusal};
use gpushare_core::Why;
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use serde_json::value::RawValue;

use super::wire::Candidates;

/// The most memory that is reserved for an answer before it is written.
const LARGEST_RESERVATION: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Answer<'a> {
    candidates: &'a Candidates<'a>,
    /// For each candidate in turn, the place of its reason; `None` if it is offered.
    verdicts: Vec<Option<usize>>,
    reasons: Reasons,
    /// How many nodes each reason is for, by its place.
    nodes: Vec<u64>,
    /// The place of the only offered candidate, if the others are left out of the answer.
    only: Option<usize>,
    is_error: bool,
}

impl<'a> Answer<'a> {
    /// Asks `refuses` about each candidate in turn.
    pub(super) fn of(
        candidates: &'a Candidates<'a>,
        mut refuses: impl FnMut(&str) -> Option<Why>,
    ) -> Self {
        let mut reasons = Reasons::default();
        let names = candidates.names();
        let verdicts = names.map(|name| refuses(name).map(|why| reasons.place_of(why)));
        let verdicts = verdicts.collect();
        Self::judged(candidates, verdicts, reasons)
    }

    /// Offers each candidate, or refuses it for the reason that its verdict points to.
    pub(super) fn judged(
        candidates: &'a Candidates<'a>,
        verdicts: Vec<Option<usize>>,
        reasons: Reasons,
    ) -> Self {
        let mut nodes = vec![0; reasons.count()];
        for place in verdicts.iter().flatten() {
            if let Some(nodes) = nodes.get_mut(*place) {
                *nodes += 1;
            }
        }
        Self {
            verdicts,
            reasons,
            nodes,
            ..Self::empty(candidates)
        }
    }

    /// Offers every candidate.
    pub(super) fn offering_all(candidates: &'a Candidates<'a>) -> Self {
        Self::of(candidates, |_| None)
    }

    /// Offers one candidate and leaves out the others: the scheduler has a node and needs no reasons.
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
        let verdicts = vec![Some(0); candidates.len()];
        Self::judged(candidates, verdicts, Reasons::only(reason, refusal))
    }

    /// Offers and refuses nothing: the scheduler tries again soon.
    pub(super) fn error(
        candidates: &'a Candidates<'a>,
        reason: &impl Display,
        refusal: Refusal,
    ) -> Self {
        Self {
            reasons: Reasons::only(reason, refusal),
            nodes: vec![1],
            is_error: true,
            ..Self::empty(candidates)
        }
    }

    /// Turns the first reason into an error.
    pub(super) fn into_error(mut self) -> Self {
        self.is_error = true;
        self.verdicts.clear();
        let first = self.nodes.iter().position(|nodes| *nodes > 0);
        for (place, nodes) in self.nodes.iter_mut().enumerate() {
            *nodes = u64::from(Some(place) == first);
        }
        self
    }

    fn empty(candidates: &'a Candidates<'a>) -> Self {
        Self {
            candidates,
            verdicts: Vec::new(),
            reasons: Reasons::default(),
            nodes: Vec::new(),
            only: None,
            is_error: false,
        }
    }

    pub(super) fn asked(&self) -> usize {
        self.candidates.len()
    }

    pub(super) fn refused(&self) -> usize {
        self.verdicts.iter().flatten().count()
    }

    /// How many nodes were refused, reason by reason.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (Refusal, u64)> {
        self.given().map(|(reason, nodes)| (reason.refusal, nodes))
    }

    /// The reasons that were given, each with the number of its nodes.
    fn given(&self) -> impl Iterator<Item = (&Reason, u64)> {
        let counted = self.reasons.all().zip(self.nodes.iter().copied());
        counted.filter(|(_, nodes)| *nodes > 0)
    }

    /// Whether every node is refused, so that the scheduler lets the pod wait.
    pub(super) fn refuses_all(&self) -> bool {
        !self.is_error && self.asked() > 0 && self.refused() == self.asked()
    }

    /// One reason, if no node is offered.
    pub(super) fn why_none(&self) -> Option<&str> {
        let none = self.is_error || self.refused() == self.asked();
        let first = self.given().next().filter(|_| none);
        first.map(|(reason, _)| reason.text.as_str())
    }

    pub(super) fn write(&self) -> serde_json::Result<Vec<u8>> {
        let reasons = self.given().map(|(reason, nodes)| {
            let nodes = usize::try_from(nodes).unwrap_or(usize::MAX);
            nodes.saturating_mul(reason.json.get().len() + 4)
        });
        // An estimate, so that a large answer is not reallocated while it is written.
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
        // Always empty: the scheduler would try to preempt on nodes listed here, which cannot help.
        result.serialize_field("FailedNodes", &Empty {})?;
        result.serialize_field("FailedAndUnresolvableNodes", &Map(|| self.reasons()))?;
        let error = self.given().next().filter(|_| self.is_error);
        let error = error.map_or("", |(reason, _)| &reason.text);
        result.serialize_field("Error", error)?;
        result.end()
    }
}

/// A Kubernetes `NodeList`, for requests that brought whole nodes.
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

/// A JSON array, written from an iterator.
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

/// A JSON object, written from an iterator.
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
