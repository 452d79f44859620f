//! Entering a rig's network from this process. A namespace belongs to a thread, and a socket to the
//! namespace in which it was created.

use std::fs::File;
use std::future::Future;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A rig's network, for threads that outlive a borrow of the rig. It stays usable after its rig has
/// ended, but nothing runs in it any more.
#[derive(Debug, Clone)]
pub struct Network(Arc<File>);

impl Network {
    pub(crate) fn of(pid: i32) -> Result<Self> {
        let path = format!("/proc/{pid}/ns/net");
        let file = File::open(&path).with_context(|| format!("cannot open {path}"))?;
        Ok(Self(Arc::new(file)))
    }

    /// Moves the calling thread, and all threads that it starts from now on, into the network.
    pub fn enter(&self) -> Result<()> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .context("cannot enter the rig's network namespace (root is needed)")
    }

    /// Runs a future to its end on its own runtime, whose threads are all in this network.
    pub fn run<F, T>(&self, make: impl FnOnce() -> F + Send) -> T
    where
        F: Future<Output = T>,
        T: Send,
    {
        let namespace = self.clone();
        let body = move || -> T {
            // The runtime is for tests, which cannot continue without the network.
            #[expect(
                clippy::expect_used,
                reason = "a test cannot go on without the network"
            )]
            namespace
                .enter()
                .expect("the thread enters the rig's network");
            let for_workers = namespace.clone();
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .on_thread_start(move || {
                    #[expect(clippy::expect_used, reason = "as above")]
                    for_workers
                        .enter()
                        .expect("the worker enters the rig's network");
                })
                .build();
            #[expect(clippy::expect_used, reason = "as above")]
            let runtime = runtime.expect("the runtime starts");
            runtime.block_on(make())
        };
        thread::scope(|scope| match scope.spawn(body).join() {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        })
    }
}
