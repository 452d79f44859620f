//! Which admission webhooks to call for a write, according to the stored configurations. The `http` layer calls them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Registry, Target};
use crate::failure::Failure;
use crate::json::Path;
use crate::object::Object;
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::store::Store;

/// What a webhook may do with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutating,
    Validating,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
        }
    }
}

/// What is needed to call a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) url: String,
    /// The CA certificates to trust, in PEM.
    pub(crate) authorities: String,
    pub(crate) timeout_seconds: u64,
    /// Whether the write is refused if the webhook does not answer.
    pub(crate) must_answer: bool,
}

const CONFIGURATIONS: [(Kind, &str); 2] = [
    (Kind::Mutating, "mutatingwebhookconfigurations"),
    (Kind::Validating, "validatingwebhookconfigurations"),
];

impl Registry {
    /// The webhooks to call for a write, mutating ones first.
    pub(crate) fn hooks(
        &self,
        target: &Target<'_>,
        operation: Operation,
        object: &Value,
    ) -> Result<Vec<Hook>, Failure> {
        let store = self.store();
        let mut found = Vec::new();
        for (kind, plural) in CONFIGURATIONS {
            let table = self.built_in("admissionregistration.k8s.io", plural)?.table;
            for configuration in store.scan(table, None) {
                for webhook in configuration.value().list("webhooks") {
                    if concerns(webhook, target.resource(), operation)
                        && self.selects(&store, webhook, target, object)?
                    {
                        found.push(hook(kind, webhook)?);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Whether any webhook could be called for such writes, without looking at the object.
    pub(crate) fn has_hooks(&self, resource: &Resource, operations: &[Operation]) -> bool {
        let store = self.store();
        let tables = CONFIGURATIONS.iter().filter_map(|(_, plural)| {
            let served = self.built_in("admissionregistration.k8s.io", plural);
            served.ok().map(|served| served.table)
        });
        let mut configurations = tables.flat_map(|table| store.scan(table, None));
        configurations.any(|configuration| {
            let mut webhooks = configuration.value().list("webhooks").iter();
            webhooks.any(|webhook| {
                operations
                    .iter()
                    .any(|operation| concerns(webhook, resource, *operation))
            })
        })
    }

    fn selects(
        &self,
        store: &Store,
        webhook: &Value,
        target: &Target<'_>,
        object: &Value,
    ) -> Result<bool, Failure> {
        let namespaces = self.built_in("", "namespaces")?.table;
        let namespace = store.get(namespaces, "", &target.namespace);
        let labels = namespace.and_then(|found: &std::sync::Arc<Object>| {
            found.value().map("metadata.labels").cloned()
        });
        let matches = |selector: Option<&Value>, labels| match selector {
            None => true,
            some => LabelSelector::from_object(some).is_some_and(|s| s.matches(labels)),
        };
        let here = !target.resource().namespaced
            || matches(webhook.at("namespaceSelector"), labels.as_ref());
        let own = object.map("metadata.labels");
        Ok(here && matches(webhook.at("objectSelector"), own))
    }
}

fn concerns(webhook: &Value, resource: &Resource, operation: Operation) -> bool {
    let names = |rule: &Value, field: &str, wanted: &str| {
        let mut names = rule.list(field).iter();
        names.any(|name| name == "*" || name == wanted)
    };
    webhook.list("rules").iter().any(|rule| {
        names(rule, "operations", operation.name())
            && names(rule, "apiGroups", resource.group)
            && names(rule, "apiVersions", resource.version)
            && names(rule, "resources", resource.plural)
    })
}

fn hook(kind: Kind, webhook: &Value) -> Result<Hook, Failure> {
    let name = webhook.text("name").to_owned();
    let url = webhook.text("clientConfig.url").to_owned();
    if url.is_empty() {
        return Err(Failure::internal(format!(
            "webhook {name:?} names a service, and there is no network of services here: set clientConfig.url"
        )));
    }
    let bundle = STANDARD
        .decode(webhook.text("clientConfig.caBundle"))
        .unwrap_or_default();
    let timeout = webhook.int("timeoutSeconds").unwrap_or(10);
    Ok(Hook {
        name,
        kind,
        url,
        authorities: String::from_utf8_lossy(&bundle).into_owned(),
        timeout_seconds: u64::try_from(timeout).unwrap_or(10),
        must_answer: webhook.text("failurePolicy") != "Ignore",
    })
}
