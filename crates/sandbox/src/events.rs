//! Events as components of Kubernetes write them: one object for each message, with a count of its repetitions.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

/// After this many messages the recorder forgets them all, and counts start at 1 again.
const REMEMBERED: usize = 10_000;

pub(crate) struct Recorder {
    client: Client,
    component: &'static str,
    said: Mutex<BTreeMap<(String, String), Said>>,
}

#[derive(Clone)]
struct Said {
    name: String,
    count: i32,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder")
            .field("component", &self.component)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    pub(crate) fn new(client: Client, component: &'static str) -> Self {
        Self {
            client,
            component,
            said: Mutex::default(),
        }
    }

    pub(crate) async fn warn(&self, pod: &Pod, reason: &str, message: &str) {
        self.say(pod, "Warning", reason, message).await;
    }

    pub(crate) async fn tell(&self, pod: &Pod, reason: &str, message: &str) {
        self.say(pod, "Normal", reason, message).await;
    }

    async fn say(&self, pod: &Pod, kind: &str, reason: &str, message: &str) {
        let namespace = pod.namespace().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let now = jiff::Timestamp::now();
        let key = (
            pod.uid().unwrap_or_default(),
            format!("{reason}: {message}"),
        );
        let before = {
            let mut said = self.said.lock();
            if said.len() >= REMEMBERED {
                said.clear();
            }
            let entry = said.entry(key).or_insert_with(|| Said {
                name: format!("{}.{:x}", pod.name_any(), now.as_nanosecond()),
                count: 0,
            });
            entry.count += 1;
            entry.clone()
        };
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let written = if before.count > 1 {
            let again = json!({"count": before.count, "lastTimestamp": time});
            let params = PatchParams::default();
            let again = Patch::Merge(again);
            events.patch(&before.name, &params, &again).await.map(drop)
        } else {
            let event = json!({
                "metadata": {"name": before.name, "namespace": namespace},
                "involvedObject": pod.object_ref(&()),
                "type": kind,
                "reason": reason,
                "message": message,
                "count": 1,
                "firstTimestamp": time,
                "lastTimestamp": time,
                "source": {"component": self.component},
                "reportingComponent": self.component,
            });
            match serde_json::from_value(event) {
                Ok(event) => events
                    .create(&PostParams::default(), &event)
                    .await
                    .map(drop),
                Err(error) => Err(kube::Error::SerdeError(error)),
            }
        };
        if let Err(error) = written {
            // As in Kubernetes: events are lost rather than waited for.
            tracing::debug!(%error, reason, "an event is lost");
        }
    }
}
