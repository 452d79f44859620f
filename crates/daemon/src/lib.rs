//! What every long-running process of gpushare needs: logging, supervised tasks, HTTP serving with or
//! without TLS, and the administration routes with their metrics.
//!
//! Nothing here knows of cards, pods or Kubernetes.

pub mod admin;
pub mod logging;
pub mod metrics;
pub mod serve;
pub mod tasks;
pub mod tls;

pub use tasks::Tasks;
