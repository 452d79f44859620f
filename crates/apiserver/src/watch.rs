//! Changes as they happened: the events that a store keeps, how each watcher sees an event, and the line sent for it.
//! Pure apart from the channel that carries events to a watcher; it knows neither HTTP nor time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::json::Path;
use crate::object::Object;
use crate::selector::{FieldSelector, LabelSelector};

/// A watcher that falls this far behind is ended, as in the real server; the client resumes from its version.
const QUEUE: usize = 16_384;

/// What happened to an object, as reported to a watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One write to a table.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) change: Change,
    /// The state after the write; for a deletion the last state at the version of the deletion.
    pub(crate) object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
    line: OnceLock<Bytes>,
}

impl Event {
    pub(crate) fn new(
        change: Change,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            change,
            object,
            previous,
            line: OnceLock::new(),
        })
    }

    pub(crate) fn version(&self) -> u64 {
        self.object.version()
    }
}

/// Which objects of a table a reader wants.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Filter {
    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|namespace| namespace == object.namespace())
            && self.selects(object.value())
    }

    fn selects(&self, value: &Value) -> bool {
        self.fields.matches(value) && self.labels.matches(value.map("metadata.labels"))
    }

    pub(crate) fn has_selector(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// How this reader sees an event: an object that starts to match is added, one that ceases to match is deleted.
    fn sees(&self, event: &Event) -> Option<Change> {
        let before = event.previous.as_ref().is_some_and(|o| self.matches(o));
        let after = event.change != Change::Deleted && self.matches(&event.object);
        match (before, after) {
            (false, true) => Some(Change::Added),
            (true, true) => Some(Change::Modified),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        }
    }
}

/// Turns the stored form into what a reader asked for.
pub(crate) type View = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// An event on its way to one watcher.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    change: Change,
    event: Arc<Event>,
}

impl Delivery {
    pub(crate) fn for_reader(filter: &Filter, event: &Arc<Event>) -> Option<Self> {
        filter.sees(event).map(|change| Self {
            change,
            event: Arc::clone(event),
        })
    }

    pub(crate) fn version(&self) -> u64 {
        self.event.version()
    }

    /// The line to send. `view` turns the stored form into the version the reader asked for.
    pub(crate) fn line(&self, view: Option<&View>) -> Bytes {
        if let Some(view) = view {
            return line(self.change, view(&self.value()).to_string().as_bytes());
        }
        if self.change == self.event.change {
            let make = || line(self.change, &self.event.object.json());
            return self.event.line.get_or_init(make).clone();
        }
        match self.change {
            Change::Deleted => line(self.change, self.value().to_string().as_bytes()),
            _ => line(self.change, &self.event.object.json()),
        }
    }

    fn value(&self) -> Value {
        match (&self.event.previous, self.change, self.event.change) {
            // The object left the selection: the reader gets the last state it knew, at the version of the change.
            (Some(previous), Change::Deleted, Change::Modified) => {
                let mut value = previous.value().clone();
                value.put("metadata.resourceVersion", self.event.version().to_string());
                value
            }
            _ => self.event.object.value().clone(),
        }
    }
}

/// A line that announces an object that already existed when the watch began.
pub(crate) fn initial_line(object: &Object, view: Option<&View>) -> Bytes {
    match view {
        Some(view) => line(Change::Added, view(object.value()).to_string().as_bytes()),
        None => line(Change::Added, &object.json()),
    }
}

fn line(change: Change, object: &[u8]) -> Bytes {
    event_line(change.name(), object)
}

/// `{"type":…,"object":…}` and a newline: the framing of a watch stream.
pub(crate) fn event_line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + 40);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(kind.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(object);
    line.put_slice(b"}\n");
    line.freeze()
}

/// The store's end of a watch.
#[derive(Debug)]
pub(crate) struct Watcher {
    filter: Filter,
    /// Only events after this version are sent; it may be in the future.
    after: u64,
    queue: mpsc::Sender<Delivery>,
    severed: Arc<AtomicBool>,
}

/// The reader's end of a watch.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) queue: mpsc::Receiver<Delivery>,
    severed: Arc<AtomicBool>,
}

impl Subscription {
    /// Whether the watch ended by a fault that must look like a broken connection.
    pub(crate) fn was_severed(&self) -> bool {
        self.severed.load(Ordering::Acquire)
    }
}

impl Watcher {
    pub(crate) fn new(filter: Filter, after: u64) -> (Self, Subscription) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let severed = Arc::new(AtomicBool::new(false));
        let subscription = Subscription {
            queue: receiver,
            severed: Arc::clone(&severed),
        };
        (
            Self {
                filter,
                after,
                queue: sender,
                severed,
            },
            subscription,
        )
    }

    /// Hands an event over. False when the watcher is gone or too slow and must be forgotten.
    pub(crate) fn offer(&self, event: &Arc<Event>) -> bool {
        if event.version() <= self.after {
            return true;
        }
        match Delivery::for_reader(&self.filter, event) {
            Some(delivery) => self.queue.try_send(delivery).is_ok(),
            None => true,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.queue.is_closed()
    }

    pub(crate) fn sever(&self) {
        self.severed.store(true, Ordering::Release);
    }
}
