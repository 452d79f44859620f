//! A choice of cards: which cards of a class a pod accepts, and which policy shall choose among them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::card::Card;
use crate::ids::CardId;

/// How a user names a model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// Whole words of the model in this order, ignoring case: `A10` does not match `A100`.
    Words(Arc<[Box<str>]>),
    /// Any part of the model, ignoring case.
    Part(Box<str>),
}

impl Pattern {
    /// `None` if the text has no letter or digit.
    pub fn words(text: &str) -> Option<Self> {
        let words: Arc<[Box<str>]> = words(text).map(|word| word.to_lowercase().into()).collect();
        (!words.is_empty()).then_some(Self::Words(words))
    }

    pub fn part(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self::Part(text.to_lowercase().into()))
    }

    pub fn matches(&self, model: &str) -> bool {
        match self {
            Self::Words(wanted) => {
                let model: Vec<String> = words(model).map(str::to_lowercase).collect();
                let alike = |window: &[String]| {
                    let mut pairs = window.iter().zip(&**wanted);
                    pairs.all(|(word, wanted)| **word == **wanted)
                };
                model.windows(wanted.len()).any(alike)
            }
            Self::Part(part) => model.to_lowercase().contains(&**part),
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// Empty lists restrict nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    pub models: Vec<Pattern>,
    pub not_models: Vec<Pattern>,
    /// Sets, because every card of the cluster is looked up in them.
    pub ids: BTreeSet<CardId>,
    pub not_ids: BTreeSet<CardId>,
    /// The name of a policy; `None` for the cluster's default.
    pub policy: Option<Arc<str>>,
}

impl Choice {
    pub fn accepts(&self, card: &Card) -> bool {
        self.accepts_model(&card.model) && self.accepts_id(&card.id)
    }

    pub fn accepts_model(&self, model: &str) -> bool {
        let named = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(model));
        (self.models.is_empty() || named(&self.models)) && !named(&self.not_models)
    }

    pub fn accepts_id(&self, id: &CardId) -> bool {
        (self.ids.is_empty() || self.ids.contains(id)) && !self.not_ids.contains(id)
    }

    /// Whether the pod accepts every card of the class.
    pub fn accepts_all(&self) -> bool {
        self.models.is_empty()
            && self.not_models.is_empty()
            && self.ids.is_empty()
            && self.not_ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_as_a_whole_and_in_any_case() {
        let a10 = Pattern::words("a10").unwrap();
        assert!(a10.matches("NVIDIA A10"));
        assert!(!a10.matches("NVIDIA A100-SXM4-80GB"));
        let long = Pattern::words("A100-SXM4").unwrap();
        assert!(long.matches("NVIDIA A100-SXM4-80GB"));
        assert!(!long.matches("NVIDIA A100-PCIE-40GB"));
        assert!(!long.matches("A100"));
        assert_eq!(Pattern::words(" - "), None);
    }

    #[test]
    fn parts_match_anywhere() {
        assert!(Pattern::part("a10").unwrap().matches("NVIDIA A100"));
        assert_eq!(Pattern::part("  "), None);
    }

    #[test]
    fn an_exclusion_beats_a_selection() {
        let choice = Choice {
            models: vec![Pattern::words("A100").unwrap()],
            not_models: vec![Pattern::words("PCIE").unwrap()],
            ..Choice::default()
        };
        assert!(choice.accepts_model("NVIDIA A100-SXM4-80GB"));
        assert!(!choice.accepts_model("NVIDIA A100-PCIE-40GB"));
        assert!(!choice.accepts_model("Tesla T4"));
    }
}
