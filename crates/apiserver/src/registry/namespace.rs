//! Does immediately what a cluster's namespace controllers do: a new namespace gets its default service account,
//! and a deleted one disappears with the last object in it.

use serde_json::json;

use super::create::Birth;
use super::{DeleteOptions, Registry, Target, Write};
use crate::failure::Failure;
use crate::json::Path;
use crate::store::Store;

impl Registry {
    pub(super) fn furnish_namespace(
        &self,
        store: &mut Store,
        namespace: &str,
        write: &Write,
    ) -> Result<(), Failure> {
        let served = self.built_in("", "serviceaccounts")?;
        let target = Target {
            served,
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default"},
        });
        let mut write = write.clone();
        // Derived, so that the two objects of one request do not share a uid.
        write.stamp.uid = uuid::Uuid::from_u128(write.stamp.uid.as_u128() ^ 1);
        self.insert(store, &target, account, &write, &Birth::Update)
            .map(drop)
    }

    /// Deletes everything in a namespace; pods on nodes get their grace period.
    pub(super) fn empty_namespace(
        &self,
        store: &mut Store,
        namespace: &str,
        write: &Write,
    ) -> Result<(), Failure> {
        for served in self
            .served
            .iter()
            .filter(|s| s.resource.namespaced && s.view.is_none())
        {
            for object in store.scan(served.table, Some(namespace)) {
                let name = object.name().to_owned();
                let target = Target {
                    served,
                    namespace: namespace.to_owned(),
                    name,
                };
                self.remove(store, &target, &DeleteOptions::default(), write)?;
            }
        }
        self.finish_namespace(store, namespace)
    }

    /// Removes a terminating namespace that has become empty.
    pub(super) fn finish_namespace(
        &self,
        store: &mut Store,
        namespace: &str,
    ) -> Result<(), Failure> {
        let namespaces = self.built_in("", "namespaces")?;
        let Some(found) = store.get(namespaces.table, "", namespace) else {
            return Ok(());
        };
        let ready = found.value().at("metadata.deletionTimestamp").is_some()
            && found.value().list("metadata.finalizers").is_empty();
        let empty = || {
            let mut tables = self.served.iter().filter(|s| s.resource.namespaced);
            tables.all(|s| store.scan(s.table, Some(namespace)).is_empty())
        };
        if ready && empty() {
            store.remove(namespaces.table, "", namespace);
        }
        Ok(())
    }
}
