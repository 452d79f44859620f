//! The Kubernetes edge: objects become core values here, and decisions become writes.
//!
//! Nothing here decides about cards. The crates that do, such as `crates/core` and `crates/books`, name no Kubernetes
//! types.

pub mod access;
pub mod admission;
pub mod args;
pub mod bind;
pub mod budgets;
pub mod call;
pub mod claim;
pub mod client;
pub mod convert;
pub mod document;
pub mod enforcement;
pub mod evict;
pub mod fence;
pub mod finalizer;
pub mod gpu_budget;
pub mod kinds;
pub mod labels;
pub mod leader;
pub mod lease;
pub mod manifest;
pub mod metering;
pub mod notice;
pub mod placing;
pub mod pod_ref;
pub mod proxy;
pub mod slim;
pub mod start;
pub mod suits;
pub mod totals;
pub mod trust;
pub mod wake;
pub mod watch;

pub use pod_ref::PodRef;
