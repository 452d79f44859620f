//! `--watch`: prints again when something has changed, but not faster than a person can read.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use gpushare_kube::slim;
use gpushare_kube::watch::{self, Index, Which};
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::cache::{CardCache, Keeps};
use super::{Arguments, show};

/// Changes within this time are shown together.
const TOGETHER: Duration = Duration::from_millis(300);

struct Following {
    seen: Mutex<Seen>,
    changed: Notify,
}

struct Seen {
    cache: CardCache,
    /// The kinds whose complete list has not arrived yet.
    unlisted: Vec<&'static str>,
    /// Why nothing can be shown at all.
    failure: Option<String>,
}

/// Runs until Ctrl-C.
pub(super) async fn follow(client: Client, arguments: &Arguments) -> Result<()> {
    let following = Following {
        seen: Mutex::new(Seen {
            cache: CardCache::new(arguments.unit.of_records()),
            unlisted: vec![
                <CardCache as Keeps<slim::Node>>::KIND,
                <CardCache as Keeps<slim::Pod>>::KIND,
            ],
            failure: None,
        }),
        changed: Notify::new(),
    };
    let which = arguments
        .selector
        .as_deref()
        .map_or(Which::All, Which::Labels);
    let nodes: Api<slim::Node> = Api::all(client.clone());
    let pods: Api<slim::Pod> = Api::all(client);
    tokio::select! {
        () = watch::follow(nodes, which, &following) => bail!("the watch of nodes has ended"),
        () = watch::follow(pods, Which::All, &following) => bail!("the watch of pods has ended"),
        failed = following.keep_showing(arguments) => failed,
        stop = tokio::signal::ctrl_c() => stop.context("cannot wait for Ctrl-C"),
    }
}

impl Following {
    async fn keep_showing(&self, arguments: &Arguments) -> Result<()> {
        let mut shown = String::new();
        loop {
            self.changed.notified().await;
            tokio::time::sleep(TOGETHER).await;
            let text = match &*self.seen.lock() {
                Seen {
                    failure: Some(failure),
                    ..
                } => bail!("{failure}"),
                seen if seen.unlisted.is_empty() => arguments.print(&seen.cache)?,
                _ => continue,
            };
            if text != shown {
                show(&text)?;
                shown = text;
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock());
        self.changed.notify_one();
    }
}

impl<K: Clone> Index<K> for Following
where
    CardCache: Keeps<K>,
{
    type Value = K;

    fn reduce(&self, object: &K) -> K {
        object.clone()
    }

    fn apply(&self, object: K) {
        self.change(|seen| seen.cache.set(&object));
    }

    fn delete(&self, object: K) {
        self.change(|seen| seen.cache.remove(&object));
    }

    fn replace(&self, objects: Vec<K>) {
        self.change(|seen| {
            seen.cache.replace(&objects);
            let listed = <CardCache as Keeps<K>>::KIND;
            seen.unlisted.retain(|kind| *kind != listed);
        });
    }

    /// A watch that has worked before resumes by itself. If it never worked, the user must be told.
    fn interrupted(&self, error: &watcher::Error) {
        let kind = <CardCache as Keeps<K>>::KIND;
        self.change(|seen| {
            if seen.unlisted.contains(&kind) {
                let failure = format!(
                    "cannot watch {kind}; check the kubeconfig and that you may list and watch {kind} in all namespaces: {error}"
                );
                seen.failure = Some(failure);
            }
        });
    }
}
