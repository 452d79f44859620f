//! The bind: one atomic write, and what its answer means.
//!
//! A Binding carries node, pod uid and annotations; the API server applies all of them in one update or
//! none. An answer can get lost, so the outcome is one of four cases, each of which says what is still
//! possible afterwards. Nothing here retries: a second request could take effect after the first was
//! given up.

use std::collections::BTreeMap;
use std::time::Duration;

use gpushare_core::dialect::Dialects;
use gpushare_core::{NodeName, PodUid, names};
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Client};
use serde_json::json;
use thiserror::Error;

use crate::convert::PodFacts;
use crate::slim;

/// Past the server's own deadline: for the request to arrive, for its answer to come back, and for a
/// write that etcd took on just before.
const MARGIN: Duration = Duration::from_secs(1);
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// One bind of one pod.
#[derive(Clone, Debug)]
pub struct Bind {
    pub pod: PodUid,
    pub namespace: String,
    pub name: String,
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
    /// The pod is gone or bound otherwise: no request of ours can take effect on it any more.
    Overtaken(String),
    /// The request may have taken effect or may still do so, until [`surely_over`].
    Unknown(String),
}

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("cannot read pod {namespace}/{name}: {source}")]
    Api {
        namespace: String,
        name: String,
        source: kube::Error,
    },
    #[error("cannot read pod {namespace}/{name}: no answer within {READ_TIMEOUT:?}")]
    Timeout { namespace: String, name: String },
}

/// After this long a bind sent now can have no effect any more, whatever became of it.
pub fn surely_over(timeout: Duration) -> Duration {
    timeout + MARGIN
}

/// The pod as it is now (a consistent read), or nothing.
pub async fn read_pod(
    client: &Client,
    dialects: &Dialects,
    namespace: &str,
    name: &str,
) -> Result<Option<PodFacts>, ReadError> {
    let api: Api<slim::Pod> = Api::namespaced(client.clone(), namespace);
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    match tokio::time::timeout(READ_TIMEOUT, api.get_opt(&name)).await {
        Ok(Ok(pod)) => Ok(pod.map(|pod| PodFacts::new(&pod, dialects))),
        Ok(Err(source)) => Err(ReadError::Api {
            namespace,
            name,
            source,
        }),
        Err(_elapsed) => Err(ReadError::Timeout { namespace, name }),
    }
}

/// Sends the Binding and finds out what became of it.
pub async fn bind(client: &Client, dialects: &Dialects, bind: &Bind) -> Outcome {
    let limit = surely_over(bind.timeout);
    let answer = match tokio::time::timeout(limit, bind.post(client)).await {
        Ok(Ok(())) => return Outcome::Bound,
        Ok(Err(error)) => Answer::of(error),
        Err(_elapsed) => Answer::Lost("the API server did not answer in time".to_owned()),
    };
    if let Answer::Refused(message) = answer {
        return Outcome::Refused(message);
    }
    match read_pod(client, dialects, &bind.namespace, &bind.name).await {
        Ok(pod) => bind.judge(answer, pod.as_ref()),
        Err(error) => Outcome::Unknown(format!("{}; then {error}", answer.message())),
    }
}

/// What the answer to the request says by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Turned away before anything was tried.
    Refused(String),
    /// The pod's state forbids it: perhaps because an earlier request of ours took effect.
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
            408 => Self::Lost(message),
            400..=499 => Self::Refused(message),
            _ => Self::Lost(message),
        }
    }

    fn message(&self) -> &str {
        match self {
            Self::Refused(message) | Self::Conflict(message) | Self::Lost(message) => message,
        }
    }
}

impl Bind {
    async fn post(&self, client: &Client) -> Result<(), kube::Error> {
        let Self {
            pod,
            namespace,
            name,
            node,
            annotations,
            timeout,
        } = self;
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": pod,
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

    /// What the pod's present state makes of an answer that does not stand by itself.
    pub fn judge(&self, answer: Answer, pod: Option<&PodFacts>) -> Outcome {
        let Some(pod) = pod.filter(|pod| pod.uid == self.pod) else {
            return Outcome::Overtaken("the pod does not exist any more".to_owned());
        };
        match &pod.node {
            Some(node) if *node == self.node && self.is_record_of(pod) => Outcome::Bound,
            Some(node) => Outcome::Overtaken(format!("the pod is bound to {node} already")),
            None => match answer {
                Answer::Refused(message) | Answer::Conflict(message) => Outcome::Refused(message),
                Answer::Lost(message) => Outcome::Unknown(message),
            },
        }
    }

    fn is_record_of(&self, pod: &PodFacts) -> bool {
        self.annotations.get(names::ALLOCATION).map(String::as_str) == pod.record()
    }
}

#[cfg(test)]
mod tests;
