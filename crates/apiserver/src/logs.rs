//! Where the logs of containers come from. The real server reads them from the kubelet, this one from a given source.

use std::fmt::Debug;

/// A source of containers' logs.
pub trait Logs: Debug + Send + Sync {
    /// Everything that the container has written; `None` if it has not started.
    fn read(&self, namespace: &str, pod: &str, container: &str) -> Option<String>;
}
