//! Which CAs the API server trusts for a webhook: the `caBundle` in its configuration. Nothing else in a
//! configuration is ever written.

pub mod certificate;

use std::fmt::Debug;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;

pub use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};

/// A webhook configuration, mutating or validating.
pub trait Configuration:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static
{
    fn clients(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)>;
}

impl Configuration for MutatingWebhookConfiguration {
    fn clients(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| (webhook.name.as_str(), &webhook.client_config))
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    fn clients(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| (webhook.name.as_str(), &webhook.client_config))
    }
}

/// The CA certificates that a configuration trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    pub name: String,
    version: Option<String>,
    /// Each webhook's name and its `caBundle` in PEM.
    webhooks: Vec<(String, String)>,
}

impl Trust {
    pub fn of<K: Configuration>(configuration: &K) -> Self {
        let meta = configuration.meta();
        let webhooks = configuration.clients().map(|(name, client)| {
            let bundle = client.ca_bundle.as_ref();
            let bundle = bundle.map(|ByteString(bytes)| String::from_utf8_lossy(bytes));
            (name.to_owned(), bundle.unwrap_or_default().into_owned())
        });
        Self {
            name: meta.name.clone().unwrap_or_default(),
            version: meta.resource_version.clone(),
            webhooks: webhooks.collect(),
        }
    }

    /// Whether every webhook's bundle contains this certificate.
    pub fn includes(&self, certificate: &str) -> bool {
        let mut bundles = self.webhooks.iter().map(|(_, bundle)| bundle);
        bundles.all(|bundle| bundle.contains(certificate))
    }

    /// Each webhook's bundle in PEM; empty if it trusts no CA.
    pub fn bundles(&self) -> impl Iterator<Item = &str> {
        self.webhooks.iter().map(|(_, bundle)| bundle.as_str())
    }

    /// Whether every webhook has exactly this bundle.
    pub fn is(&self, bundle: &str) -> bool {
        self.webhooks.iter().all(|(_, other)| other == bundle)
    }
}

/// Writes the bundle to all webhooks of a configuration, unless it has changed since it was seen.
pub async fn publish<K: Configuration>(
    client: &Client,
    seen: &Trust,
    bundle: &str,
) -> Result<Trust, kube::Error> {
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let webhooks: Vec<_> = seen
        .webhooks
        .iter()
        .map(|(name, _)| json!({"name": name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    // Merged by webhook name: fields that the patch does not mention stay.
    let patch = json!({"metadata": {"resourceVersion": seen.version}, "webhooks": webhooks});
    let api: Api<K> = Api::all(client.clone());
    let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
    let patched = api.patch(&seen.name, &params, &patch).await?;
    Ok(Trust::of(&patched))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(bundles: &[Option<&str>]) -> MutatingWebhookConfiguration {
        let webhooks = bundles.iter().enumerate().map(|(number, bundle)| {
            let bundle = bundle.map(|text| ByteString(text.as_bytes().to_vec()));
            json!({
                "name": format!("w{number}.gpushare.io"), "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "clientConfig": {"caBundle": bundle},
            })
        });
        let webhooks: Vec<_> = webhooks.collect();
        serde_json::from_value(json!({"metadata": {"name": "gpushare"}, "webhooks": webhooks}))
            .unwrap()
    }

    #[test]
    fn a_certificate_is_believed_when_every_webhook_has_it() {
        let trust = |bundles: &[Option<&str>]| Trust::of(&configuration(bundles));
        assert!(trust(&[Some("A B"), Some("B")]).includes("B"));
        assert!(!trust(&[Some("A B"), Some("B")]).includes("A"));
        assert!(!trust(&[Some("A"), None]).includes("A"));
        assert!(trust(&[Some("A"), Some("A")]).is("A"));
        assert!(!trust(&[Some("A"), Some("A B")]).is("A"));
    }
}
