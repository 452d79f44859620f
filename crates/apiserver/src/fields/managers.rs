//! Who owns which fields of an object: the entries of `metadata.managedFields`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::set::FieldSet;
use super::walk::difference;
use crate::failure::Cause;
use crate::json::Path;

/// How a manager came to own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// Who owns fields. One manager is several owners if it wrote by different operations, versions or subresources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

/// One owner's fields, and when it last wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    pub(crate) time: String,
    pub(crate) fields: FieldSet,
}

impl Entry {
    fn read(value: &Value) -> Self {
        let text = |field| value.text(field).to_owned();
        let operation = match value.text("operation") {
            "Apply" => Operation::Apply,
            _ => Operation::Update,
        };
        let fields = value.at("fieldsV1").map(FieldSet::from_json);
        Self {
            owner: Owner {
                manager: text("manager"),
                operation,
                api_version: text("apiVersion"),
                subresource: text("subresource"),
            },
            time: text("time"),
            fields: fields.unwrap_or_default(),
        }
    }

    fn write(&self) -> Value {
        let owner = &self.owner;
        let mut entry = json!({
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owner.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_json(),
        });
        if !owner.subresource.is_empty() {
            entry.put("subresource", owner.subresource.as_str());
        }
        entry
    }
}

/// All managers of one object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Managers(Vec<Entry>);

impl Managers {
    pub(crate) fn read(object: &Value) -> Self {
        let entries = object.list("metadata.managedFields").iter();
        Self(entries.map(Entry::read).collect())
    }

    pub(crate) fn write(mut self, object: &mut Value) {
        self.0.retain(|entry| !entry.fields.is_empty());
        if self.0.is_empty() {
            object.remove("metadata.managedFields");
        } else {
            let entries = self.0.iter().map(Entry::write).collect::<Value>();
            object.put("metadata.managedFields", entries);
        }
    }

    /// Makes the writer own what a plain write changed. `writer.fields` is not read.
    pub(crate) fn updated(&mut self, writer: Entry, old: &Value, new: &Value) {
        let (changed, removed) = difference(old, new);
        if changed.is_empty() && removed.is_empty() {
            return;
        }
        for entry in &mut self.0 {
            if entry.owner != writer.owner {
                entry.fields.subtract(&changed);
            }
            entry.fields.subtract(&removed);
        }
        if changed.is_empty() {
            return;
        }
        match self.entry_of(&writer) {
            Some(entry) => {
                entry.fields.unite(&changed);
                entry.time = writer.time;
            }
            None => self.0.push(Entry {
                fields: changed,
                ..writer
            }),
        }
    }

    /// The fields that a manager applied last time.
    pub(crate) fn applied_by(&self, writer: &Entry) -> FieldSet {
        let mine = self.0.iter().find(|entry| entry.owner == writer.owner);
        mine.map(|entry| entry.fields.clone()).unwrap_or_default()
    }

    /// The fields that other managers own.
    pub(crate) fn owned_by_others(&self, writer: &Entry) -> FieldSet {
        let mut all = FieldSet::default();
        for entry in self.others(writer) {
            all.unite(&entry.fields);
        }
        all
    }

    fn entry_of(&mut self, writer: &Entry) -> Option<&mut Entry> {
        let mut entries = self.0.iter_mut();
        entries.find(|entry| entry.owner == writer.owner)
    }

    fn others(&self, writer: &Entry) -> impl Iterator<Item = &Entry> {
        let entries = self.0.iter();
        entries.filter(|entry| entry.owner != writer.owner)
    }

    /// Fields another manager owns and this write would change, one cause each.
    pub(crate) fn conflicts(&self, writer: &Entry, changed: &FieldSet) -> Vec<Cause> {
        self.others(writer)
            .flat_map(|entry| {
                let Owner {
                    manager,
                    api_version,
                    ..
                } = &entry.owner;
                let who = match entry.owner.operation {
                    Operation::Apply => format!("conflict with {manager:?}"),
                    Operation::Update => format!("conflict with {manager:?} using {api_version}"),
                };
                let paths = entry.fields.intersection(changed).paths();
                paths
                    .into_iter()
                    .map(move |path| Cause::owned_by_another(who.clone(), path))
            })
            .collect()
    }

    /// Records an apply: the writer owns exactly `writer.fields`, and other owners lose the changed fields.
    pub(crate) fn applied(&mut self, writer: Entry, changed: &FieldSet) {
        for entry in &mut self.0 {
            if entry.owner != writer.owner {
                entry.fields.subtract(changed);
            }
        }
        match self.entry_of(&writer) {
            Some(entry) if entry.fields == writer.fields => {}
            Some(entry) => *entry = writer,
            None => self.0.push(writer),
        }
    }
}

/// The managedFields of an object without their times, to tell a real change from a repeated write.
pub(crate) fn timeless(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Array(entries)) = object.map_mut("metadata").get_mut("managedFields") {
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            drop_time(entry);
        }
    }
    object
}

fn drop_time(entry: &mut Map<String, Value>) {
    entry.remove("time");
}
