//! Telling a pod's owner something: an Event on the pod.

use gpushare_core::PodUid;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

const CONTROLLER: &str = "gpushare.io/extender";
/// Kubernetes refuses longer notes.
const LONGEST_NOTE: usize = 1024;

/// Something wrong with a pod that its owner must change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub pod: PodUid,
    pub namespace: String,
    pub name: String,
    pub reason: &'static str,
    pub message: String,
}

impl Notice {
    /// One Event for each pod and reason: the name makes a second attempt, also of another process, a
    /// conflict that means "said already".
    fn event(&self, now: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", self.reason.to_ascii_lowercase(), self.pod)),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            regarding: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                uid: Some(self.pod.to_string()),
                ..ObjectReference::default()
            }),
            action: Some("Scheduling".to_owned()),
            reason: Some(self.reason.to_owned()),
            type_: Some("Warning".to_owned()),
            note: Some(shorten(&self.message)),
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(CONTROLLER.to_owned()),
            ..Event::default()
        }
    }
}

/// Posts the notice unless it has been posted before.
pub async fn post(client: &Client, notice: &Notice, now: Timestamp) -> Result<(), kube::Error> {
    let events: Api<Event> = Api::namespaced(client.clone(), &notice.namespace);
    match events
        .create(&PostParams::default(), &notice.event(now))
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        answer => answer.map(|_event| ()),
    }
}

fn shorten(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_NOTE - '…'.len_utf8());
    format!("{}…", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(message: &str) -> Notice {
        Notice {
            pod: "u-1".into(),
            namespace: "team".to_owned(),
            name: "p".to_owned(),
            reason: "InvalidGpuRequest",
            message: message.to_owned(),
        }
    }

    #[test]
    fn the_same_notice_has_the_same_name_and_another_pod_another() {
        let event = notice("a").event(Timestamp::UNIX_EPOCH);
        assert_eq!(
            event.metadata.name.as_deref(),
            Some("invalidgpurequest.u-1")
        );
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let text = notice(&"ä".repeat(2000))
            .event(Timestamp::UNIX_EPOCH)
            .note
            .unwrap();
        assert!(
            text.len() <= LONGEST_NOTE && text.ends_with("ä…"),
            "{}",
            text.len()
        );
    }
}
