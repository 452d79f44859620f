//! A reference to one pod, and to no later pod of the same name.

use std::fmt;
use std::time::Duration;

use gpushare_core::PodUid;
use kube::api::{Patch, PatchParams};
use kube::core::Status;
use kube::{Api, Client};
use serde_json::Value;

use crate::call::{CallError, call_or};
use crate::slim;

/// A pod on the API server. Displayed as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    pub uid: PodUid,
    pub namespace: String,
    pub name: String,
}

/// Whether a pod was there to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchOutcome {
    Done,
    /// It does not exist any more, and another pod may have its name; or the change comes too late for it.
    Gone,
}

impl PodRef {
    pub(crate) fn api(&self, client: &Client) -> Api<slim::Pod> {
        Api::namespaced(client.clone(), &self.namespace)
    }

    /// Patches the pod. The patch should contain the uid, so that no other pod of the same name is changed: a uid
    /// cannot be changed, so the API server refuses such a patch. `gone` recognises refusals of that kind.
    pub(crate) async fn patch(
        &self,
        client: &Client,
        patch: &Patch<Value>,
        limit: Duration,
        doing: &str,
        gone: impl FnOnce(&Status) -> bool,
    ) -> Result<PatchOutcome, CallError> {
        let (api, params) = (self.api(client), PatchParams::default());
        let request = async {
            let answer = api.patch(&self.name, &params, patch).await;
            answer.map(|_pod| PatchOutcome::Done)
        };
        let what = || format!("{doing} pod {self}");
        let gone = |status: &Status| gone(status).then_some(PatchOutcome::Gone);
        call_or(limit, what, request, gone).await
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
