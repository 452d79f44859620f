//! What every long-running process of gpushare needs: logging, flags, supervised tasks, HTTP serving with or
//! without TLS, request bodies within limits, files in places that others can write, and the administration routes
//! with their metrics.
//!
//! Nothing here knows of cards, pods or Kubernetes.

pub mod admin;
pub mod args;
pub mod body;
pub mod causes;
pub mod files;
pub mod logging;
pub mod metrics;
pub mod serve;
pub mod tasks;
pub mod tls;

pub use tasks::Tasks;
