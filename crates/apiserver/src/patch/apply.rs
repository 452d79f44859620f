//! Server-side apply: the writer sends the fields it wants to own. Fields it no longer sends are removed unless another
//! manager owns them, and fields of another manager can be taken only by force.

use serde_json::Value;

use crate::failure::Failure;
use crate::fields::{Entry, FieldSet, Managers, apply_onto, difference, fields_of, prune};

/// The outcome of an apply, to be recorded once the object has passed the checks.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) value: Value,
    pub(crate) owned: FieldSet,
    pub(crate) taken: FieldSet,
}

/// Applies a configuration to the live object (an empty object when it is to be created).
pub(crate) fn apply(
    live: &Value,
    config: &Value,
    writer: &Entry,
    force: bool,
) -> Result<Applied, Failure> {
    let managers = Managers::read(live);
    let mut value = live.clone();
    apply_onto(&mut value, config);
    let (taken, _) = difference(live, &value);
    if !force {
        let conflicts = managers.conflicts(writer, &taken);
        if !conflicts.is_empty() {
            return Err(Failure::apply_conflict(conflicts));
        }
    }
    let owned = fields_of(config);
    let mut dropped = managers.applied_by(writer);
    dropped.subtract(&owned);
    prune(&mut value, &dropped, &managers.owned_by_others(writer));
    Ok(Applied {
        value,
        owned,
        taken,
    })
}
