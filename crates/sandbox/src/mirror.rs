//! All objects of one kind as a watch shows them, shared by all stand-ins, which can subscribe to changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use gpushare_daemon::Tasks;
use gpushare_kube::watch::{Index, Which, follow};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// How long to wait until the watch shows a write of ours.
const PATIENCE: Duration = Duration::from_secs(10);

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Change<K> {
    Applied(Arc<K>),
    Deleted(Arc<K>),
}

#[derive(Debug)]
pub(crate) struct Mirror<K> {
    state: Mutex<State<K>>,
    /// The latest version that the watch has shown.
    version: watch::Sender<u64>,
}

#[derive(Debug)]
struct State<K> {
    objects: BTreeMap<Key, Arc<K>>,
    listeners: Vec<UnboundedSender<Change<K>>>,
}

impl<K> Mirror<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Starts to watch all objects of the kind, as a service of the process.
    pub(crate) fn start(client: &Client, tasks: &Tasks, name: &'static str) -> Arc<Self> {
        let mirror = Arc::new(Self {
            state: Mutex::new(State {
                objects: BTreeMap::new(),
                listeners: Vec::new(),
            }),
            version: watch::Sender::new(0),
        });
        let (index, api) = (Arc::clone(&mirror), Api::all(client.clone()));
        let stop = tasks.shutdown().clone();
        tasks.service(name, async move {
            let follower = Follower(&*index);
            let following = follow(api, Which::All, &follower);
            stop.run_until_cancelled(following).await;
            Ok::<(), Infallible>(())
        });
        mirror
    }

    /// Sends all present objects, and then every change.
    pub(crate) fn subscribe(&self) -> UnboundedReceiver<Change<K>> {
        let (send, receive) = unbounded_channel();
        let mut state = self.state.lock();
        for object in state.objects.values() {
            // We still hold the receiver, so this cannot fail.
            let _sent = send.send(Change::Applied(Arc::clone(object)));
        }
        state.listeners.push(send);
        receive
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.state.lock().objects.get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.state.lock().objects.values().cloned().collect()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let first = Key {
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        let state = self.state.lock();
        let inside = state.objects.range(first..);
        let inside = inside.take_while(|(key, _)| key.namespace == namespace);
        inside.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Waits until the mirror contains what we have just written.
    pub(crate) async fn catch_up(&self, written: &K) {
        let wanted = version(written);
        let mut seen = self.version.subscribe();
        let caught_up = seen.wait_for(|seen| *seen >= wanted);
        if tokio::time::timeout(PATIENCE, caught_up).await.is_err() {
            tracing::warn!(name = written.name_any(), "a write of ours is not seen");
        }
    }

    fn note(&self, version: u64) {
        self.version.send_if_modified(|seen| {
            let newer = version > *seen;
            *seen = version.max(*seen);
            newer
        });
    }
}

fn version<K: Resource>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_ref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

impl<K> State<K> {
    fn tell(&mut self, change: impl Fn() -> Change<K>) {
        self.listeners
            .retain(|listener| listener.send(change()).is_ok());
    }
}

struct Follower<'a, K>(&'a Mirror<K>);

impl<K> Index<K> for Follower<'_, K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    type Value = Arc<K>;

    fn reduce(&self, object: &K) -> Arc<K> {
        let mut object = object.clone();
        object.meta_mut().managed_fields = None;
        Arc::new(object)
    }

    fn apply(&self, object: Arc<K>) {
        let mut state = self.0.state.lock();
        state.objects.insert(Key::of(&*object), Arc::clone(&object));
        state.tell(|| Change::Applied(Arc::clone(&object)));
        drop(state);
        self.0.note(version(&*object));
    }

    fn delete(&self, object: Arc<K>) {
        let mut state = self.0.state.lock();
        state.objects.remove(&Key::of(&*object));
        state.tell(|| Change::Deleted(Arc::clone(&object)));
        drop(state);
        self.0.note(version(&*object));
    }

    fn replace(&self, objects: Vec<Arc<K>>) {
        let mut state = self.0.state.lock();
        let fresh: BTreeMap<Key, Arc<K>> = objects
            .into_iter()
            .map(|object| (Key::of(&*object), object))
            .collect();
        let before = std::mem::replace(&mut state.objects, fresh.clone());
        for (key, object) in before {
            let same = fresh
                .get(&key)
                .is_some_and(|new| new.meta().uid == object.meta().uid);
            if !same {
                state.tell(|| Change::Deleted(Arc::clone(&object)));
            }
        }
        for object in fresh.values() {
            state.tell(|| Change::Applied(Arc::clone(object)));
        }
        drop(state);
        for object in fresh.values() {
            self.0.note(version(&**object));
        }
    }

    fn interrupted(&self, error: &watcher::Error) {
        tracing::warn!(%error, "a watch of the sandbox broke, trying again");
    }
}
