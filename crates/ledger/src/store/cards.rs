//! The cards of a pod as the ledger stores them, to show what a bill is for. Nothing is computed from them: the rate
//! alone determines what was charged.

use gpushare_core::CardId;
use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::meter::HeldCard;
use crate::price::{Holding, Part};

#[derive(Deserialize, Serialize)]
struct Stored {
    id: String,
    model: String,
    /// How much is held, and of how much.
    memory: (u64, u64),
    core: (u64, u64),
}

/// `None` for no cards.
pub(super) fn written(cards: &[HeldCard]) -> Result<Option<String>, StoreError> {
    if cards.is_empty() {
        return Ok(None);
    }
    let part = |part: Part| (part.held, part.of);
    let stored = cards.iter().map(|HeldCard { id, holding }| Stored {
        id: id.to_string(),
        model: holding.model.to_string(),
        memory: part(holding.memory),
        core: part(holding.core),
    });
    let text = serde_json::to_string(&stored.collect::<Vec<_>>());
    text.map(Some)
        .map_err(|source| StoreError::database("write to", source))
}

pub(super) fn read(text: Option<&str>) -> Result<Vec<HeldCard>, StoreError> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    let stored: Result<Vec<Stored>, _> = serde_json::from_str(text);
    let stored =
        stored.map_err(|error| StoreError::Strange(format!("{text:?} as cards ({error})")))?;
    let part = |(held, of)| Part { held, of };
    let card = |stored: Stored| HeldCard {
        id: CardId::new(stored.id),
        holding: Holding {
            model: stored.model.into(),
            memory: part(stored.memory),
            core: part(stored.core),
        },
    };
    Ok(stored.into_iter().map(card).collect())
}
