//! Work in the network of a cluster, on a thread of its own, until it is dropped.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use gpushare_rig::Rig;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the work, and returns what it sends once it has begun.
    pub(crate) fn start<T: Send + 'static, F: Future<Output = ()>>(
        rig: &Arc<Rig>,
        work: impl FnOnce(Sender<T>) -> F + Send + 'static,
    ) -> (Self, T) {
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = channel();
        let rig = rig.clone();
        let work = move || async move {
            tokio::select! {
                () = work(ready) => {}
                _ = stopped => {}
            }
        };
        let thread = thread::spawn(move || rig.run(work));
        let began = started.recv().expect("the work begins");
        let (stop, thread) = (Some(stop), Some(thread));
        (Self { stop, thread }, began)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The work stops when this sender is dropped.
        self.stop = None;
        let ended = self.thread.take().map(JoinHandle::join);
        drop(ended);
    }
}

/// A watch of the cluster.
#[derive(Debug)]
pub(crate) struct Follower(Background);

impl Follower {
    /// Starts `follow` with the path of a kubeconfig, and waits until it says that its watch has begun.
    pub(crate) fn start<F: Future<Output = ()>>(
        rig: &Arc<Rig>,
        follow: impl FnOnce(PathBuf, Sender<()>) -> F + Send + 'static,
    ) -> Self {
        let kubeconfig = rig.kubeconfig();
        Self(Background::start(rig, |ready| follow(kubeconfig, ready)).0)
    }

    pub(crate) fn assert_alive(&self) {
        let thread = self.0.thread.as_ref().expect("a thread until the end");
        assert!(!thread.is_finished(), "a watch has ended by itself");
    }
}
