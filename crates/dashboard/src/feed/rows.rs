//! Rows by key, as they were last serialized, so that only those that differ are sent again.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<String, Box<RawValue>>);

/// Rows that are new or changed, and the keys of rows that are gone.
#[derive(Debug, Serialize)]
pub(super) struct RowsChange<'a> {
    set: Vec<&'a RawValue>,
    gone: Vec<&'a str>,
}

impl RowsChange<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.gone.is_empty()
    }
}

pub(super) fn written(row: &impl Serialize) -> Option<Box<RawValue>> {
    to_raw_value(row).ok()
}

impl Rows {
    pub(super) fn all(&self) -> Vec<&RawValue> {
        self.0.values().map(AsRef::as_ref).collect()
    }

    /// Sets these rows, or removes them if `None`; returns the keys of those that changed.
    pub(super) fn set<'a, R: Serialize>(
        &mut self,
        rows: impl Iterator<Item = (&'a str, Option<R>)>,
    ) -> Vec<String> {
        let mut changed = Vec::new();
        for (key, row) in rows {
            let row = row.as_ref().and_then(written);
            let old = self.0.get(key).map(|old| old.get());
            if row.as_ref().map(|row| row.get()) == old {
                continue;
            }
            changed.push(key.to_owned());
            match row {
                Some(row) => self.0.insert(key.to_owned(), row),
                None => self.0.remove(key),
            };
        }
        changed
    }

    /// Like [`Self::set`], but removes all other rows.
    pub(super) fn replace<R: Serialize>(&mut self, rows: &BTreeMap<String, R>) -> Vec<String> {
        let gone = self.0.keys().filter(|key| !rows.contains_key(*key));
        let mut changed: Vec<String> = gone.cloned().collect();
        for key in &changed {
            self.0.remove(key);
        }
        changed.extend(self.set(rows.iter().map(|(key, row)| (key.as_str(), Some(row)))));
        changed
    }

    pub(super) fn change<'a>(&'a self, keys: &'a [String]) -> RowsChange<'a> {
        let (mut set, mut gone) = (Vec::new(), Vec::new());
        for key in keys {
            match self.0.get(key) {
                Some(row) => set.push(row.as_ref()),
                None => gone.push(key.as_str()),
            }
        }
        RowsChange { set, gone }
    }
}
