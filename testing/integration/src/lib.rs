//! The basis of integration tests: an API server, a namespace for each test, builders for objects, waiting and
//! watching. A test written with it runs unchanged on the embedded API server and, when
//! `GPUSHARE_TEST_KUBECONFIG` names a cluster, on a real one.
//!
//! Rules that keep tests valid on both:
//! - Pods name a scheduler that does not exist ([`objects::NO_SCHEDULER`]), so a real kube-scheduler leaves them alone.
//! - Nodes exist only as objects. A real controller manager tolerates that for about a minute, so tests are short.
//! - Only the embedded server can inject faults, so they are tested where it is built.

mod api;
pub mod objects;
mod raw;
mod requests;
mod scope;
pub mod verdict;
mod wait;
mod watch;

pub use raw::{Answer, RawClient, refused};
pub use requests::{Objects, version_of};
pub use scope::{Scope, in_namespace};
pub use wait::until;
pub use watch::{Change, Watch};
