//! One document in a Secret that several processes share: the first writer wins, and the others get an error.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use thiserror::Error;

pub use k8s_openapi::api::core::v1::Secret;

/// Where the document is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub namespace: String,
    pub name: String,
    /// The entry of the Secret's data.
    pub entry: &'static str,
}

/// The document as it was seen.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    version: Option<String>,
    /// `None` if the Secret has no such entry.
    pub content: Option<Vec<u8>>,
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Error)]
pub enum WriteError {
    #[error("Secret {namespace}/{name} was written by another replica in the meantime")]
    Overtaken { namespace: String, name: String },
    #[error("cannot write Secret {namespace}/{name}: {source}")]
    Failed {
        namespace: String,
        name: String,
        source: Box<kube::Error>,
    },
}

impl Place {
    pub fn api(&self, client: &Client) -> Api<Secret> {
        Api::namespaced(client.clone(), &self.namespace)
    }

    pub fn read(&self, secret: &Secret) -> Document {
        let data = secret.data.as_ref();
        let content = data.and_then(|data| data.get(self.entry));
        Document {
            version: secret.metadata.resource_version.clone(),
            content: content.map(|bytes| bytes.0.clone()),
        }
    }

    /// Replaces the document that was seen; `seen` is `None` if there is no Secret yet.
    pub async fn write(
        &self,
        client: &Client,
        seen: Option<&Document>,
        content: Vec<u8>,
    ) -> Result<Document, WriteError> {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: seen.and_then(|seen| seen.version.clone()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(
                self.entry.to_owned(),
                ByteString(content),
            )])),
            ..Secret::default()
        };
        let (api, params) = (self.api(client), PostParams::default());
        let written = match seen {
            Some(_) => api.replace(&self.name, &params, &secret).await,
            None => api.create(&params, &secret).await,
        };
        match written {
            Ok(secret) => Ok(self.read(&secret)),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: kube::Error) -> WriteError {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        match &error {
            // Another process created, changed or deleted it meanwhile: the watch shows how.
            kube::Error::Api(status) if matches!(status.code, 404 | 409) => {
                WriteError::Overtaken { namespace, name }
            }
            _ => WriteError::Failed {
                namespace,
                name,
                source: Box::new(error),
            },
        }
    }
}
