//! Field ownership: sets of field paths as `metadata.managedFields` spells them, which fields two states differ in,
//! and who owns what. Pure; the rules of list identity come from the schema table.

mod managers;
mod set;
mod walk;

pub(crate) use managers::{Entry, Managers, Operation, Owner, timeless};
pub(crate) use set::FieldSet;
pub(crate) use walk::{apply_onto, difference, fields_of, prune};
