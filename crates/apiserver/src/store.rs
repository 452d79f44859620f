//! The storage core: objects by table and key, one version counter for all writes, a bounded history per table.
//! Every write is one version and one event, handed to the watchers in the same step, so that no reader can see
//! a version whose event is not on its way.
//!
//! It does not know kinds, rules or time: what may be written is decided before it is called.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::json::Path;
use crate::object::Object;
use crate::watch::{Change, Delivery, Event, Filter, Subscription, Watcher};

/// Which table; handed out by [`Store::add_table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TableId(usize);

/// The requested version is no longer in the history, or not yet written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutOfReach {
    TooOld { oldest: u64 },
    TooNew { current: u64 },
}

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The current state as additions, then changes.
    Now,
    /// Only what changes from here on.
    Next,
    /// Changes after this version.
    After(u64),
}

/// How watches are ended by a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As when the server's own timeout is reached.
    Clean,
    /// As when the connection breaks.
    Severed,
}

/// A watch that has begun: what to send first, and where the rest arrives.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) present: Vec<Arc<Object>>,
    pub(crate) missed: Vec<Delivery>,
    pub(crate) subscription: Subscription,
    pub(crate) version: u64,
}

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<String, Arc<Object>>,
    history: VecDeque<Arc<Event>>,
    /// Every event after this version is in the history.
    complete_after: u64,
    /// The version of the table's last write.
    version: u64,
    watchers: Vec<Watcher>,
}

/// All objects of one server.
#[derive(Debug)]
pub(crate) struct Store {
    version: u64,
    history_limit: usize,
    tables: Vec<Table>,
}

impl Store {
    /// An empty store whose first write gets the version after `version`.
    pub(crate) fn new(version: u64, history_limit: usize) -> Self {
        Self {
            version,
            history_limit,
            tables: Vec::new(),
        }
    }

    pub(crate) fn add_table(&mut self) -> TableId {
        let version = self.version;
        self.tables.push(Table {
            complete_after: version,
            version,
            ..Table::default()
        });
        TableId(self.tables.len() - 1)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The version of the last write to a table: what a watch of it can be up to date with.
    pub(crate) fn table_version(&self, table: TableId) -> u64 {
        self.table(table)
            .map_or(self.version, |table| table.version)
    }

    pub(crate) fn get(&self, table: TableId, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.table(table)?.objects.get(&key(namespace, name))
    }

    /// The objects of a table in key order, of one namespace or of all.
    pub(crate) fn scan(&self, table: TableId, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let Some(table) = self.table(table) else {
            return Vec::new();
        };
        match namespace {
            None => table.objects.values().cloned().collect(),
            Some(namespace) => {
                let first = format!("{namespace}/");
                let inside = table.objects.range(first.clone()..);
                let inside = inside.take_while(|(key, _)| key.starts_with(&first));
                inside.map(|(_, object)| Arc::clone(object)).collect()
            }
        }
    }

    /// The objects as they were at a version, by undoing the history since.
    pub(crate) fn scan_at(
        &self,
        table: TableId,
        version: u64,
    ) -> Result<BTreeMap<String, Arc<Object>>, OutOfReach> {
        if version > self.version {
            return Err(OutOfReach::TooNew {
                current: self.version,
            });
        }
        let Some(table) = self.table(table) else {
            return Ok(BTreeMap::new());
        };
        table.reaches(version)?;
        let mut objects = table.objects.clone();
        for event in table
            .history
            .iter()
            .rev()
            .take_while(|e| e.version() > version)
        {
            let key = object_key(&event.object);
            match &event.previous {
                Some(previous) => objects.insert(key, Arc::clone(previous)),
                None => objects.remove(&key),
            };
        }
        Ok(objects)
    }

    /// Writes an object, new or changed, at the next version.
    pub(crate) fn put(&mut self, table: TableId, value: Value) -> Arc<Object> {
        self.version += 1;
        let object = Object::seal(value, self.version);
        let limit = self.history_limit;
        if let Some(table) = self.table_mut(table) {
            let previous = table
                .objects
                .insert(object_key(&object), Arc::clone(&object));
            let change = if previous.is_some() {
                Change::Modified
            } else {
                Change::Added
            };
            table.record(Event::new(change, Arc::clone(&object), previous), limit);
        }
        object
    }

    /// Removes an object; returns its last state at the version of the removal.
    pub(crate) fn remove(
        &mut self,
        table: TableId,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Object>> {
        let version = self.version + 1;
        let limit = self.history_limit;
        let table = self.table_mut(table)?;
        let previous = table.objects.remove(&key(namespace, name))?;
        let last = Object::seal(previous.value().clone(), version);
        table.record(
            Event::new(Change::Deleted, Arc::clone(&last), Some(previous)),
            limit,
        );
        self.version = version;
        Some(last)
    }

    /// Begins a watch. No write can come between the initial state and the first event, so none is missed.
    pub(crate) fn watch(
        &mut self,
        table: TableId,
        filter: Filter,
        start: Start,
    ) -> Result<Watch, OutOfReach> {
        let version = self.version;
        let (mut present, mut missed, mut from) = (Vec::new(), Vec::new(), version);
        match start {
            Start::Now => {
                present = self.scan(table, filter.namespace.as_deref());
                present.retain(|object| filter.matches(object));
            }
            Start::Next => {}
            Start::After(after) => {
                missed = self.missed(table, &filter, after)?;
                from = from.max(after);
            }
        }
        let (watcher, subscription) = Watcher::new(filter, from);
        if let Some(table) = self.table_mut(table) {
            table.watchers.retain(|w| !w.is_gone());
            table.watchers.push(watcher);
        }
        Ok(Watch {
            present,
            missed,
            subscription,
            version,
        })
    }

    fn missed(
        &self,
        table: TableId,
        filter: &Filter,
        after: u64,
    ) -> Result<Vec<Delivery>, OutOfReach> {
        let Some(table) = self.table(table) else {
            return Ok(Vec::new());
        };
        table.reaches(after)?;
        let first = table
            .history
            .partition_point(|event| event.version() <= after);
        let events = table.history.range(first..);
        Ok(events
            .filter_map(|event| Delivery::for_reader(filter, event))
            .collect())
    }

    /// Forgets the history: every version before the current one is too old from now on.
    pub(crate) fn expire_history(&mut self) {
        // The current version itself stays reachable, so a watch can always resume from a fresh list.
        let version = self.version;
        for table in &mut self.tables {
            table.history.clear();
            table.complete_after = version;
        }
    }

    /// Ends every watch and returns how many there were.
    pub(crate) fn end_watches(&mut self, ending: Ending) -> usize {
        let mut ended = 0;
        for table in &mut self.tables {
            table.watchers.retain(|w| !w.is_gone());
            for watcher in table.watchers.drain(..) {
                if ending == Ending::Severed {
                    watcher.sever();
                }
                ended += 1;
            }
        }
        ended
    }

    /// How many watches are open.
    pub(crate) fn watches(&self) -> usize {
        self.tables
            .iter()
            .flat_map(|t| &t.watchers)
            .filter(|w| !w.is_gone())
            .count()
    }

    fn table(&self, table: TableId) -> Option<&Table> {
        self.tables.get(table.0)
    }

    fn table_mut(&mut self, table: TableId) -> Option<&mut Table> {
        self.tables.get_mut(table.0)
    }
}

impl Table {
    fn reaches(&self, version: u64) -> Result<(), OutOfReach> {
        if version < self.complete_after {
            return Err(OutOfReach::TooOld {
                oldest: self.complete_after,
            });
        }
        Ok(())
    }

    fn record(&mut self, event: Arc<Event>, limit: usize) {
        self.version = event.version();
        self.watchers.retain(|watcher| watcher.offer(&event));
        self.history.push_back(event);
        while self.history.len() > limit {
            if let Some(dropped) = self.history.pop_front() {
                self.complete_after = dropped.version();
            }
        }
    }
}

/// Lists are in the order of keys, which therefore is the order of `namespace/name` as one text.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

fn object_key(object: &Object) -> String {
    key(object.value().text("metadata.namespace"), object.name())
}

#[cfg(test)]
mod tests;
