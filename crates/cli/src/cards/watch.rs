//! `--watch`: prints again when something has changed, but not faster than a person can read.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use gpushare_kube::slim;
use gpushare_kube::watch::{self, Index, Which};
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::known::Known;
use super::{Arguments, show};

/// Changes within this time are shown together.
const TOGETHER: Duration = Duration::from_millis(300);

struct Following {
    seen: Mutex<Seen>,
    changed: Notify,
}

struct Seen {
    known: Known,
    nodes_listed: bool,
    pods_listed: bool,
    /// Why nothing can be shown at all.
    failure: Option<String>,
}

/// Runs until Ctrl-C.
pub(super) async fn follow(client: Client, arguments: &Arguments) -> Result<()> {
    let following = Following {
        seen: Mutex::new(Seen {
            known: Known::new(arguments.dialects()),
            nodes_listed: false,
            pods_listed: false,
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
                seen if seen.nodes_listed && seen.pods_listed => arguments.print(&seen.known)?,
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

    /// A watch that has worked before resumes by itself. If it never worked, the user must be told.
    fn failed(&self, listed: impl Fn(&Seen) -> bool, what: &str, error: &watcher::Error) {
        self.change(|seen| {
            if !listed(seen) {
                let failure = format!(
                    "cannot watch {what}; check the kubeconfig and that you may list and watch {what} in all namespaces: {error}"
                );
                seen.failure = Some(failure);
            }
        });
    }
}

impl Index<slim::Node> for Following {
    type Value = slim::Node;

    fn reduce(&self, object: &slim::Node) -> slim::Node {
        object.clone()
    }

    fn apply(&self, node: slim::Node) {
        self.change(|seen| seen.known.set_node(&node));
    }

    fn delete(&self, node: slim::Node) {
        let name = node.metadata.name.unwrap_or_default();
        self.change(|seen| seen.known.remove_node(&name));
    }

    fn replace(&self, nodes: Vec<slim::Node>) {
        self.change(|seen| {
            seen.known.forget_nodes();
            for node in &nodes {
                seen.known.set_node(node);
            }
            seen.nodes_listed = true;
        });
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.failed(|seen| seen.nodes_listed, "nodes", error);
    }
}

impl Index<slim::Pod> for Following {
    type Value = slim::Pod;

    fn reduce(&self, object: &slim::Pod) -> slim::Pod {
        object.clone()
    }

    fn apply(&self, pod: slim::Pod) {
        self.change(|seen| seen.known.set_pod(&pod));
    }

    fn delete(&self, pod: slim::Pod) {
        let uid = pod.metadata.uid.unwrap_or_default();
        self.change(|seen| seen.known.remove_pod(&uid));
    }

    fn replace(&self, pods: Vec<slim::Pod>) {
        self.change(|seen| {
            seen.known.forget_pods();
            for pod in &pods {
                seen.known.set_pod(pod);
            }
            seen.pods_listed = true;
        });
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.failed(|seen| seen.pods_listed, "pods", error);
    }
}
