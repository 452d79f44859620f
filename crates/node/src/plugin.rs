//! The device plugin: serves a resource to the kubelet and keeps it registered.
//!
//! It decides nothing about cards. Allocate only returns a new name; [`crate::start`] prepares the start of a
//! container.

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

/// One resource and everything needed to serve it.
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
