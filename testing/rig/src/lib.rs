//! A whole real Kubernetes in one set of namespaces: etcd, API server, controller manager,
//! scheduler, kubelet, kube-proxy and containerd on one node, started in seconds, several at once,
//! and gone without a trace when the [`Rig`] is dropped or its process dies.
//!
//! Tests use [`Rig`]; `cargo xtask` also uses the parts that prepare a machine. The programs come
//! from Go modules and Debian packages and are kept in a cache outside the checkout.
//!
//! This crate knows nothing of GPU sharing.
//!
//! # Current limitations
//! - Needs root. `/dev` and `/tmp` are the host's.
//! - Control groups v2 are supported, but less tested than v1.
//! - No cluster DNS, no route out of the rig: a pod reaches pods, Services and the API server.

pub mod apt;
mod binaries;
mod bridge;
pub mod cache;
mod config;
mod exec;
mod gobuild;
pub mod host;
mod images;
mod network;
mod options;
mod pki;
pub mod postgres;
pub mod progress;
mod rig;
mod sources;
mod start;
mod state;
mod tar;
pub mod versions;

pub use binaries::Binaries;
pub use bridge::Bridge;
pub use config::{API_PORT, NODE_IP, NODE_NAME};
pub use images::BUSYBOX;
pub use network::Network;
pub use options::{Options, check_name};
pub use rig::{COMPONENTS, Rig};
pub use state::{is_running, sweep};
