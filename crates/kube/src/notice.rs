//! Notices to a pod's owner, as Events on the pod.
//!
//! There is one Event for each pod and reason. A new message changes this Event instead of creating a second one;
//! only core/v1 lets an Event's message be changed.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::PodRef;
use crate::call::{CallError, call};

const EXTENDER: &str = "gpushare-extender";
/// The limit of the newer Events API of Kubernetes, and as much as people read.
const LONGEST_MESSAGE: usize = 1024;
const TIMEOUT: Duration = Duration::from_secs(5);

/// Something that a pod's owner should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub pod: PodRef,
    pub reason: &'static str,
    pub severity: Severity,
    pub message: String,
}

/// The type of an Event in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Notice {
    fn event(&self, controller: &str, now: Timestamp) -> Event {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(self.pod.name.clone()),
            namespace: Some(self.pod.namespace.clone()),
            uid: Some(self.pod.uid.to_string()),
            ..ObjectReference::default()
        };
        let said = (self.reason, self.severity, self.message.as_str());
        event(controller, &self.pod.namespace, about, said, now)
    }
}

/// A new Event with this reason about an object.
pub(crate) fn event(
    controller: &str,
    namespace: &str,
    about: ObjectReference,
    (reason, severity, message): (&str, Severity, &str),
    now: Timestamp,
) -> Event {
    let uid = about.uid.as_deref().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{uid}", reason.to_ascii_lowercase())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        reason: Some(reason.to_owned()),
        type_: Some(severity.name().to_owned()),
        message: Some(shorten(message)),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        source: Some(EventSource {
            component: Some(controller.to_owned()),
            ..EventSource::default()
        }),
        involved_object: about,
        ..Event::default()
    }
}

/// Posts the notice, or updates the existing Event. `times` is how often its sender has reported this reason, this
/// time included.
pub async fn post(
    client: &Client,
    notice: &Notice,
    times: u32,
    now: Timestamp,
) -> Result<(), CallError> {
    post_as(EXTENDER, client, notice, times, now).await
}

/// As [`post`], in the name of another component of gpushare.
pub async fn post_as(
    controller: &str,
    client: &Client,
    notice: &Notice,
    times: u32,
    now: Timestamp,
) -> Result<(), CallError> {
    let event = notice.event(controller, now);
    let what = || format!("post an event on pod {}", notice.pod);
    call(TIMEOUT, what, write(client, &event, times, now)).await
}

/// Creates the Event, or updates the one of the same name.
pub(crate) async fn write(
    client: &Client,
    event: &Event,
    times: u32,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let events: Api<Event> =
        Api::namespaced(client.clone(), &event.namespace().unwrap_or_default());
    let params = PostParams::default();
    match events.create(&params, event).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        answer => return answer.map(|_event| ()),
    }
    let changed = Patch::Merge(json!({
        "message": event.message,
        "lastTimestamp": Time(now),
        "count": times,
    }));
    let params = PatchParams::default();
    events
        .patch(&event.name_any(), &params, &changed)
        .await
        .map(|_event| ())
}

fn shorten(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_MESSAGE - '…'.len_utf8());
    format!("{}…", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(message: &str) -> Notice {
        Notice {
            pod: PodRef {
                uid: "u-1".into(),
                namespace: "team".to_owned(),
                name: "p".to_owned(),
            },
            reason: "InvalidGpuRequest",
            severity: Severity::Warning,
            message: message.to_owned(),
        }
    }

    #[test]
    fn the_same_notice_has_the_same_name_and_another_pod_another() {
        let event = notice("a").event(EXTENDER, Timestamp::UNIX_EPOCH);
        assert_eq!(
            event.metadata.name.as_deref(),
            Some("invalidgpurequest.u-1")
        );
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let event = notice(&"ä".repeat(2000)).event(EXTENDER, Timestamp::UNIX_EPOCH);
        let text = event.message.unwrap();
        assert!(
            text.len() <= LONGEST_MESSAGE && text.ends_with("ä…"),
            "{}",
            text.len()
        );
    }
}
