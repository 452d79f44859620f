//! Which pod is meant: one, and no later one of the same name.

use std::fmt;

use gpushare_core::PodUid;
use kube::{Api, Client};

use crate::slim;

/// A pod on the API server. Displayed as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    pub uid: PodUid,
    pub namespace: String,
    pub name: String,
}

impl PodRef {
    pub(crate) fn api(&self, client: &Client) -> Api<slim::Pod> {
        Api::namespaced(client.clone(), &self.namespace)
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
