//! The bind: one atomic write, and what its answer means.
//!
//! A Binding carries node, pod uid, the version of the pod that it was decided on, and annotations. The API server
//! applies all of them in one update or none of them, and none if the pod has another version by then. An answer can
//! get lost: then the pod is [fenced](crate::fence), and the state that the fence shows is final.

use std::collections::BTreeMap;
use std::time::Duration;

use gpushare_core::dialect::Dialects;
use gpushare_core::{NodeName, names};
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Client};
use serde_json::json;

use crate::PodRef;
use crate::call::{CallError, call};
use crate::convert::PodFacts;
use crate::slim;

/// Time beyond the server's own deadline, for the request to arrive and for the answer to come back.
const MARGIN: Duration = Duration::from_secs(1);
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// One bind of one pod.
#[derive(Clone, Debug)]
pub struct Bind {
    pub pod: PodRef,
    /// The version of the pod that the decision was made on. The bind takes effect on this one or not at all.
    pub version: String,
    pub node: NodeName,
    pub annotations: BTreeMap<String, String>,
    /// The API server gives the request up after this long.
    pub timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is bound to the node with this very record.
    Bound,
    /// This request has not taken effect and will not.
    Refused(String),
    /// Refused because the pod has changed since: the bind must be decided again.
    Stale(String),
    /// The pod is gone, or is bound to another node or with another record: no request of ours can take effect on it
    /// any more.
    Overtaken(String),
    /// The request may have taken effect or may still do so, until the pod is [fenced](crate::fence).
    Unknown(String),
}

/// How long a bind waits for its answer. It may take effect later all the same.
pub fn longest_wait(timeout: Duration) -> Duration {
    timeout + MARGIN
}

/// The pod of this name as it is now (a consistent read), or nothing.
pub async fn read_pod(
    client: &Client,
    dialects: &Dialects,
    namespace: &str,
    name: &str,
) -> Result<Option<PodFacts>, CallError> {
    let api: Api<slim::Pod> = Api::namespaced(client.clone(), namespace);
    let what = || format!("read pod {namespace}/{name}");
    let read = call(READ_TIMEOUT, what, api.get_opt(name)).await?;
    Ok(read.map(|pod| PodFacts::new(&pod, dialects)))
}

/// What the answer says about the request, before the pod is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The API server refused the request without trying it.
    Refused(String),
    /// Usually the pod's state or version forbids the bind. But the request may also have been sent twice on its way,
    /// and have taken effect the first time. Kubernetes also gives this answer if its database did not answer in
    /// time, and then the bind may still take effect.
    Conflict(String),
    Lost(String),
}

impl Answer {
    fn of(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Lost(error.to_string());
        };
        let Status { code, message, .. } = *status;
        let message = format!("the API server answered {code}: {message}");
        match code {
            404 | 409 => Self::Conflict(message),
            // A proxy that sends a request twice may pass on the refusal of one of the two.
            408 | 429 => Self::Lost(message),
            400..=499 => Self::Refused(message),
            _ => Self::Lost(message),
        }
    }

    pub fn message(&self) -> &str {
        match self {
            Self::Refused(message) | Self::Conflict(message) | Self::Lost(message) => message,
        }
    }
}

impl Bind {
    /// Sends the Binding.
    pub async fn send(&self, client: &Client) -> Result<(), Answer> {
        match tokio::time::timeout(longest_wait(self.timeout), self.post(client)).await {
            Ok(answer) => answer.map_err(Answer::of),
            Err(_elapsed) => Err(Answer::Lost(
                "the API server did not answer in time".to_owned(),
            )),
        }
    }

    async fn post(&self, client: &Client) -> Result<(), kube::Error> {
        let Self {
            pod,
            version,
            node,
            annotations,
            timeout,
        } = self;
        let PodRef {
            uid,
            namespace,
            name,
        } = pod;
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "resourceVersion": version,
                "annotations": annotations,
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let body = serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?;
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let mut request = kube::core::Request::new(path)
            .create_subresource("binding", name, &PostParams::default(), body)
            .map_err(kube::Error::BuildRequest)?;
        let deadline = format!("timeout={}ms", timeout.as_millis());
        *request.uri_mut() = format!("{}?{deadline}", request.uri().path())
            .parse()
            .map_err(|error| kube::Error::HttpError(Into::into(error)))?;
        client.request::<Status>(request).await.map(|_status| ())
    }

    /// Whether the bind could take effect on the pod as it is: nothing in its state or version forbids it.
    pub fn can_take_effect(&self, pod: &PodFacts) -> bool {
        let same = pod.uid == self.pod.uid && pod.version == self.version;
        same && pod.node.is_none() && !pod.deleting && !pod.gated
    }

    /// The outcome that follows from an answer and the pod's current state. If the answer was lost, or if the bind
    /// [can take effect](Self::can_take_effect) on that state, the state must come from a fence, because any other
    /// state may change after it was read.
    pub fn judge(&self, answer: Answer, pod: Option<&PodFacts>) -> Outcome {
        let Some(pod) = pod.filter(|pod| pod.uid == self.pod.uid) else {
            return Outcome::Overtaken("the pod no longer exists".to_owned());
        };
        match &pod.node {
            Some(node) if *node == self.node && self.is_record_of(pod) => Outcome::Bound,
            Some(node) => Outcome::Overtaken(format!("the pod is bound to {node} already")),
            None => match answer {
                Answer::Conflict(message) if self.can_be_decided_again(pod) => {
                    Outcome::Stale(message)
                }
                Answer::Refused(message) | Answer::Conflict(message) | Answer::Lost(message) => {
                    Outcome::Refused(message)
                }
            },
        }
    }

    /// Whether nothing is known to prevent the bind except that the pod has changed.
    fn can_be_decided_again(&self, pod: &PodFacts) -> bool {
        pod.version != self.version && !pod.deleting && !pod.gated
    }

    fn is_record_of(&self, pod: &PodFacts) -> bool {
        self.annotations.get(names::ALLOCATION).map(String::as_str) == pod.record()
    }
}

#[cfg(test)]
mod tests;
