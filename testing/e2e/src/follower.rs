//! A thread that watches the cluster until it is dropped.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use gpushare_rig::Rig;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct Follower {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts `follow` with the path of a kubeconfig, and waits until it says that its watch has begun.
    pub(crate) fn start<F: Future<Output = ()>>(
        rig: &Arc<Rig>,
        follow: impl FnOnce(PathBuf, Sender<()>) -> F + Send + 'static,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = channel();
        let (rig, kubeconfig) = (rig.clone(), rig.kubeconfig());
        let work = move || async move {
            tokio::select! {
                () = follow(kubeconfig, ready) => {}
                _ = stopped => {}
            }
        };
        let thread = thread::spawn(move || rig.run(work));
        started.recv().expect("the watch begins");
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn assert_alive(&self) {
        let thread = self.thread.as_ref().expect("a thread until the end");
        assert!(!thread.is_finished(), "a watch has ended by itself");
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
