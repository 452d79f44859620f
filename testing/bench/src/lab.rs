//! What several figures share: the measured cluster, an extender that has it in memory, and the floor.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

use crate::objects;
use crate::process::{Extender, Server};

/// How long the API server works on one bind.
pub(crate) const BIND_MILLIS: u64 = 5;
/// The number of pods that wait to be bound, enough for all figures that bind.
const PENDING: usize = 40_000;

/// Created once for a run; its parts start when first used.
#[derive(Debug, Default)]
pub(crate) struct Lab {
    cluster: Option<Cluster>,
}

/// The extender with the whole measured cluster in memory.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) extender: SocketAddr,
    pub(crate) floor: SocketAddr,
    pub(crate) api_url: String,
    next_pending: AtomicUsize,
    // Dropped in this order.
    _extender: Extender,
    _floor: Server,
    _api: Server,
}

impl Lab {
    /// An API server with the measured cluster and this many waiting pods.
    pub(crate) fn api(pending: usize) -> Result<Server> {
        let (pods, pending, bind) = (
            objects::PODS.to_string(),
            pending.to_string(),
            BIND_MILLIS.to_string(),
        );
        Server::start(&[
            "serve-api",
            "--pods",
            &pods,
            "--pending",
            &pending,
            "--bind-millis",
            &bind,
        ])
    }

    pub(crate) fn cluster(&mut self) -> Result<&Cluster> {
        if self.cluster.is_none() {
            eprintln!(
                "      starting the extender on {} nodes and {} pods",
                objects::NODES,
                objects::PODS
            );
            self.cluster = Some(Cluster::start()?);
        }
        self.cluster
            .as_ref()
            .context("the cluster was just started")
    }
}

impl Cluster {
    fn start() -> Result<Self> {
        let api = Lab::api(PENDING)?;
        let mut extender = Extender::start(&api.url())?;
        let floor = Server::start(&["serve-floor"])?;
        extender.ready()?;
        extender.binds_open()?;
        extender.settled()?;
        Ok(Self {
            extender: extender.address()?,
            floor: floor.address,
            api_url: api.url(),
            next_pending: AtomicUsize::new(0),
            _extender: extender,
            _floor: floor,
            _api: api,
        })
    }

    /// The number of a pod that is not bound yet.
    pub(crate) fn next_pending(&self) -> Result<usize> {
        let number = self.next_pending.fetch_add(1, Ordering::Relaxed);
        anyhow::ensure!(number < PENDING, "no more pods wait to be bound");
        Ok(number)
    }
}
