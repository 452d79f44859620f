//! Where the logs of containers come from: the real server asks the node's kubelet, this one the source it was given.

use std::fmt::Debug;

/// A source of containers' logs.
pub trait Logs: Debug + Send + Sync {
    /// Everything that the container has written; `None` if it has not started.
    fn read(&self, namespace: &str, pod: &str, container: &str) -> Option<String>;
}
