//! Checks and defaults of a new object that depend on other objects: its namespace, its service account, its
//! priority class. Mirrors the admission plugins that are always enabled.

use serde_json::Value;

use super::{Registry, Target};
use crate::failure::Failure;
use crate::json::Path;
use crate::store::Store;

impl Registry {
    pub(super) fn admit_create(
        &self,
        store: &Store,
        target: &Target<'_>,
        object: &mut Value,
    ) -> Result<(), Failure> {
        let resource = target.resource();
        if resource.namespaced {
            let name = object.text("metadata.name");
            self.admit_namespace(store, target, name)?;
        }
        if resource.is("", "pods") {
            self.admit_priority(store, target, object)?;
            self.admit_account(store, target, object)?;
        }
        Ok(())
    }

    /// A new object or an action on a pod requires a namespace that exists and is not being deleted.
    pub(super) fn admit_namespace(
        &self,
        store: &Store,
        target: &Target<'_>,
        name: &str,
    ) -> Result<(), Failure> {
        let namespace = &target.namespace;
        let namespaces = self.built_in("", "namespaces")?;
        let Some(found) = store.get(namespaces.table, "", namespace) else {
            return Err(Failure::not_found(&namespaces.resource, namespace));
        };
        if found.value().at("metadata.deletionTimestamp").is_none() {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let failure = Failure::forbidden(target.resource(), name, &why);
        Err(failure.with_cause(
            "NamespaceTerminating",
            format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        ))
    }

    fn admit_priority(
        &self,
        store: &Store,
        target: &Target<'_>,
        pod: &mut Value,
    ) -> Result<(), Failure> {
        let classes = self.built_in("scheduling.k8s.io", "priorityclasses")?;
        let wanted = pod.text("spec.priorityClassName").to_owned();
        let class = if wanted.is_empty() {
            let all = store.scan(classes.table, None);
            let mut defaults = all
                .iter()
                .filter(|c| c.value().at("globalDefault").is_some_and(|g| *g == true));
            // Of several defaults the lowest wins, so that a mistake cannot raise the priority of all pods.
            defaults
                .by_ref()
                .min_by_key(|c| c.value().int("value"))
                .cloned()
        } else {
            let Some(class) = store.get(classes.table, "", &wanted) else {
                let why = format!("no PriorityClass with name {wanted} was found");
                return Err(forbidden(target, pod, &why));
            };
            Some(class.clone())
        };
        let priority = class
            .as_ref()
            .and_then(|c| c.value().int("value"))
            .unwrap_or(0);
        let preemption = class.as_ref().map(|c| c.value().text("preemptionPolicy"));
        let preemption = preemption
            .filter(|p| !p.is_empty())
            .unwrap_or("PreemptLowerPriority");
        if let Some(class) = &class {
            pod.put("spec.priorityClassName", class.name());
        }
        if pod
            .int("spec.priority")
            .is_some_and(|given| given != priority)
        {
            let why = format!(
                "the integer value of priority ({}) must not be provided in pod spec; priority \
                 admission controller computed {priority} from the given PriorityClass name",
                pod.int("spec.priority").unwrap_or_default()
            );
            return Err(forbidden(target, pod, &why));
        }
        pod.put("spec.priority", priority);
        pod.default_to("spec.preemptionPolicy", preemption);
        Ok(())
    }

    fn admit_account(
        &self,
        store: &Store,
        target: &Target<'_>,
        pod: &Value,
    ) -> Result<(), Failure> {
        let namespace = &target.namespace;
        let accounts = self.built_in("", "serviceaccounts")?;
        let account = pod.text("spec.serviceAccountName");
        if store.get(accounts.table, namespace, account).is_some() {
            return Ok(());
        }
        let why = format!(
            "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
        );
        Err(forbidden(target, pod, &why))
    }
}

/// A refusal of a new object, which may have got its name only now.
fn forbidden(target: &Target<'_>, object: &Value, why: &str) -> Failure {
    Failure::forbidden(target.resource(), object.text("metadata.name"), why)
}
