//! The verbs of the API over the store: what each write does, in one step, under one lock. No HTTP here, and no
//! clock or randomness: every write is given its [`Stamp`].

mod admission;
mod binding;
mod create;
mod decode;
mod delete;
mod eviction;
mod list;
mod namespace;
mod update;
mod webhooks;

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use uuid::Uuid;

use crate::failure::{Cause, Failure};
use crate::fields::{Entry, FieldSet, Operation, Owner};
use crate::object::Object;
use crate::resource::{BUILT_IN, Resource};
use crate::rules::{Part, event};
use crate::store::{OutOfReach, Start, Store, TableId, Watch};
use crate::watch::Filter;

pub(crate) use decode::{DecodedObject, decode, decode_body, parse};
pub(crate) use delete::{DeleteOptions, DeleteOutcome};
pub(crate) use list::{ObjectList, Paging, VersionMatch};
pub(crate) use webhooks::{Hook, Kind as HookKind, Operation as HookOperation};

/// Versions start here, so that small ones are recognisably older than the server.
const FIRST_VERSION: u64 = 1_000;

/// A served resource and the table of its objects.
#[derive(Debug)]
pub(crate) struct ServedResource {
    pub(crate) resource: Resource,
    pub(crate) table: TableId,
    pub(crate) view: Option<View>,
}

/// How a resource differs from the stored form that it shares with another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) read: fn(&Value) -> Value,
    pub(crate) write: fn(&Value) -> Value,
    pub(crate) field: fn(&str) -> String,
    pub(crate) check: fn(&Value) -> Vec<Cause>,
}

const EVENTS_VIEW: View = View {
    read: event::to_view,
    write: event::to_stored,
    field: event::stored_field,
    check: event::check_view,
};

impl ServedResource {
    /// The object as readers of this resource see it.
    pub(crate) fn shown(&self, object: &Object) -> Value {
        match self.view {
            Some(view) => (view.read)(object.value()),
            None => object.value().clone(),
        }
    }

    fn stored(&self, value: Value) -> Value {
        match self.view {
            Some(view) => (view.write)(&value),
            None => value,
        }
    }
}

/// The object or collection a request is about; the namespace is empty for cluster-scoped ones.
#[derive(Debug, Clone)]
pub(crate) struct Target<'r> {
    pub(crate) served: &'r ServedResource,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Target<'_> {
    fn resource(&self) -> &Resource {
        &self.served.resource
    }

    /// The object as it is stored.
    fn find(&self, store: &Store) -> Option<Arc<Object>> {
        let found = store.get(self.served.table, &self.namespace, &self.name);
        found.cloned()
    }

    /// The object as it is stored, which must exist.
    fn current(&self, store: &Store) -> Result<Arc<Object>, Failure> {
        self.find(store).ok_or_else(|| self.not_found())
    }

    fn not_found(&self) -> Failure {
        Failure::not_found(self.resource(), &self.name)
    }
}

/// The time and randomness that a write needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) now: Timestamp,
    /// Fresh and random: the uid of what is created, and the source of generated names.
    pub(crate) uid: Uuid,
}

impl Stamp {
    /// The time as object metadata shows it.
    pub(crate) fn time(&self) -> String {
        seconds(self.now)
    }
}

pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What to do with fields that a kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    Ignore,
    Warn,
    Refuse,
}

/// How a write is to be done.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) stamp: Stamp,
    pub(crate) manager: String,
    pub(crate) part: Part,
    pub(crate) dry_run: bool,
    pub(crate) unknown_fields: UnknownFields,
    /// What admission webhooks change in a new object.
    pub(crate) mutations: Vec<json_patch::Patch>,
}

impl Write {
    fn entry(&self, resource: &Resource, operation: Operation) -> Entry {
        let subresource = match self.part {
            Part::Main => "",
            Part::Status => "status",
            Part::Finalize => "finalize",
        };
        Entry {
            owner: Owner {
                manager: self.manager.clone(),
                operation,
                api_version: resource.api_version(),
                subresource: subresource.to_owned(),
            },
            time: self.stamp.time(),
            fields: FieldSet::default(),
        }
    }
}

/// The outcome of a write.
#[derive(Debug)]
pub(crate) struct WriteOutcome {
    pub(crate) object: Arc<Object>,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}

impl WriteOutcome {
    fn created(object: Arc<Object>, warnings: Vec<String>) -> Self {
        Self {
            object,
            created: true,
            warnings,
        }
    }
}

/// All resources and their objects.
#[derive(Debug)]
pub(crate) struct Registry {
    served: Vec<ServedResource>,
    // One lock for everything, so that the order of versions is the order of writes. It is held for work in memory
    // only, so never for long.
    store: Mutex<Store>,
}

impl Registry {
    pub(crate) fn new(more: Vec<Resource>, history_limit: usize) -> Self {
        let mut store = Store::new(FIRST_VERSION, history_limit);
        let mut served: Vec<ServedResource> = Vec::new();
        for resource in BUILT_IN.iter().cloned().chain(more) {
            let shared = served
                .iter()
                .find(|s| resource.is("events.k8s.io", "events") && s.resource.is("", "events"));
            let (table, view) = match shared {
                Some(events) => (events.table, Some(EVENTS_VIEW)),
                None => (store.add_table(), None),
            };
            served.push(ServedResource {
                resource,
                table,
                view,
            });
        }
        Self {
            served,
            store: Mutex::new(store),
        }
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.served.iter().map(|served| &served.resource)
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&ServedResource> {
        self.served
            .iter()
            .find(|s| s.resource.is(group, plural) && s.resource.version == version)
    }

    /// A resource on which the server itself relies.
    fn built_in(&self, group: &str, plural: &str) -> Result<&ServedResource, Failure> {
        let found = self.served.iter().find(|s| s.resource.is(group, plural));
        found.ok_or_else(|| Failure::internal(format!("{plural} are not served")))
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    pub(crate) fn get(&self, target: &Target<'_>) -> Result<Arc<Object>, Failure> {
        target.current(&self.store())
    }

    /// Begins a watch. It may start after a version that has not been written yet; events up to it are not sent.
    pub(crate) fn watch(
        &self,
        served: &ServedResource,
        filter: Filter,
        start: Start,
    ) -> Result<Watch, Failure> {
        let mut store = self.store();
        let version = match start {
            Start::Now | Start::Next => None,
            Start::After(version) => Some(version),
        };
        store
            .watch(served.table, filter, start)
            .map_err(|error| match error {
                OutOfReach::TooOld { oldest } => Failure::gone(format!(
                    "too old resource version: {} ({oldest})",
                    version.unwrap_or_default()
                )),
                OutOfReach::TooNew { current } => {
                    Failure::version_too_large(version.unwrap_or_default(), current)
                }
            })
    }
}
