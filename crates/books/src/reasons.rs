//! The reasons of refusals, as users read them in events.
//!
//! In a large cluster most refusals are alike: each distinct reason is formatted once and shared by all
//! its nodes.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use gpushare_core::Why;
use serde_json::value::{RawValue, to_raw_value};

/// Every reason begins with this.
const PREFIX: &str = "gpushare: ";

/// Why a node, or all of them, were not offered; for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotReady,
    InvalidRequest,
    NoCards,
    NoRoom,
    /// The steps were used up before an answer was found.
    Undecided,
    /// The pod is bound, being bound, or held by a bind in doubt.
    Held,
}

/// A reason as the user reads it.
#[derive(Debug)]
pub struct Reason {
    pub text: String,
    pub json: Box<RawValue>,
    pub refusal: Refusal,
}

/// Distinct reasons, each with a place. Clones share the formatted texts.
#[derive(Clone, Debug, Default)]
pub struct Reasons {
    all: Vec<Arc<Reason>>,
    places: BTreeMap<Why, usize>,
}

impl Reasons {
    /// One reason, at place 0.
    pub fn only(reason: &impl Display, refusal: Refusal) -> Self {
        Self {
            all: vec![Arc::new(Reason::new(reason, refusal))],
            places: BTreeMap::new(),
        }
    }

    pub fn place_of(&mut self, why: Why) -> usize {
        if let Some(place) = self.places.get(&why) {
            return *place;
        }
        let place = self.all.len();
        self.all.push(Arc::new(Reason::new(&why, kind(&why))));
        self.places.insert(why, place);
        place
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, place: usize) -> Option<&Reason> {
        self.all.get(place).map(|reason| &**reason)
    }

    pub fn all(&self) -> impl Iterator<Item = &Reason> {
        self.all.iter().map(|reason| &**reason)
    }

    /// The same reasons, without the index that is needed to add more.
    #[must_use]
    pub fn written(&self) -> Self {
        Self {
            all: self.all.clone(),
            places: BTreeMap::new(),
        }
    }
}

impl Reason {
    fn new(reason: &impl Display, refusal: Refusal) -> Self {
        let text = format!("{PREFIX}{reason}");
        let json = to_raw_value(&text).unwrap_or_else(|_| unreachable!("text is always JSON"));
        Self {
            text,
            json,
            refusal,
        }
    }
}

impl Refusal {
    pub fn label(self) -> &'static str {
        match self {
            Self::NotReady => "not_ready",
            Self::InvalidRequest => "invalid_request",
            Self::NoCards => "no_cards",
            Self::NoRoom => "no_room",
            Self::Undecided => "undecided",
            Self::Held => "held",
        }
    }
}

fn kind(why: &Why) -> Refusal {
    match why {
        Why::NoCards { .. } => Refusal::NoCards,
        Why::TooSmall { .. } | Why::Blocked { .. } => Refusal::NoRoom,
        Why::TooComplex { .. } | Why::NotReached { .. } => Refusal::Undecided,
        Why::BindInProgress { .. } | Why::BindInDoubt { .. } | Why::AlreadyBound { .. } => {
            Refusal::Held
        }
    }
}
