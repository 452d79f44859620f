//! What `kubectl logs` shows: each container's environment, as far as it is about cards.

use std::collections::BTreeMap;

use gpushare_apiserver::Logs;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use parking_lot::Mutex;

/// The logs of all existing containers.
#[derive(Debug, Default)]
pub(crate) struct LogBook(Mutex<BTreeMap<(String, String), Written>>);

#[derive(Debug, Default)]
struct Written {
    uid: String,
    containers: BTreeMap<String, String>,
}

impl LogBook {
    pub(super) fn write(&self, pod: &Pod, container: &str, line: &str) {
        let key = (pod.namespace().unwrap_or_default(), pod.name_any());
        let uid = pod.uid().unwrap_or_default();
        let mut book = self.0.lock();
        let written = book.entry(key).or_default();
        if written.uid != uid {
            *written = Written {
                uid,
                containers: BTreeMap::new(),
            };
        }
        let text = written.containers.entry(container.to_owned()).or_default();
        text.push_str(line);
        text.push('\n');
    }

    /// Removes the logs of a pod that is gone.
    pub(super) fn forget(&self, pod: &Pod) {
        let key = (pod.namespace().unwrap_or_default(), pod.name_any());
        let mut book = self.0.lock();
        if book
            .get(&key)
            .is_some_and(|written| Some(&written.uid) == pod.metadata.uid.as_ref())
        {
            book.remove(&key);
        }
    }
}

impl Logs for LogBook {
    fn read(&self, namespace: &str, pod: &str, container: &str) -> Option<String> {
        let book = self.0.lock();
        let written = book.get(&(namespace.to_owned(), pod.to_owned()))?;
        written.containers.get(container).cloned()
    }
}
