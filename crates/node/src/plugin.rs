//! The device plugin: serves a resource to the kubelet and keeps it registered.
//!
//! Decides nothing about cards. Allocate only makes up a name; the start of a container is prepared by
//! [`crate::start`].

pub mod devices;
pub mod registration;
mod service;

use std::path::PathBuf;
use std::sync::Arc;

use gpushare_daemon::Tasks;
use tokio::sync::watch;

use crate::cards::Cards;
use crate::metrics::Metrics;
use crate::start::Starter;
use devices::Division;

/// One resource and all it needs to be served.
#[derive(Clone, Debug)]
pub struct Plugin {
    pub division: Division,
    /// The kubelet's plugin directory.
    pub directory: PathBuf,
    pub cards: watch::Receiver<Cards>,
    pub starter: Arc<Starter>,
    pub metrics: Metrics,
    pub tasks: Tasks,
}
