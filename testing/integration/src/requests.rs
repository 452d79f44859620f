//! Requests for objects of one kind, without the options that most tests leave out.

use std::fmt::Debug;

use anyhow::{Context, Result};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Objects of one kind.
#[derive(Debug, Clone)]
pub struct Objects<K> {
    /// For requests with options.
    pub api: Api<K>,
}

impl<K> Objects<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    pub async fn create(&self, object: impl Into<K>) -> kube::Result<K> {
        let params = PostParams::default();
        self.api.create(&params, &object.into()).await
    }

    /// Creates the object that is written here.
    pub async fn create_json(&self, object: Value) -> Result<K> {
        let object: K = serde_json::from_value(object)?;
        Ok(self.create(object).await?)
    }

    pub async fn get(&self, name: &str) -> kube::Result<K> {
        self.api.get(name).await
    }

    pub async fn get_opt(&self, name: &str) -> kube::Result<Option<K>> {
        self.api.get_opt(name).await
    }

    /// Replaces the object of that name.
    pub async fn replace(&self, object: &K) -> kube::Result<K> {
        let name = object.name_any();
        let params = PostParams::default();
        self.api.replace(&name, &params, object).await
    }

    /// Patches an object as JSON: null removes a field, and a list replaces the old one.
    pub async fn merge(&self, name: &str, patch: Value) -> kube::Result<K> {
        let params = PatchParams::default();
        self.api.patch(name, &params, &Patch::Merge(patch)).await
    }

    pub async fn merge_status(&self, name: &str, patch: Value) -> kube::Result<K> {
        let patch = Patch::Merge(patch);
        let params = PatchParams::default();
        self.api.patch_status(name, &params, &patch).await
    }

    /// Patches an object by the rules of its kind, which can merge lists.
    pub async fn strategic(&self, name: &str, patch: Value) -> kube::Result<K> {
        let patch = Patch::Strategic(patch);
        self.api.patch(name, &PatchParams::default(), &patch).await
    }

    pub async fn strategic_status(&self, name: &str, patch: Value) -> kube::Result<K> {
        let patch = Patch::Strategic(patch);
        let params = PatchParams::default();
        self.api.patch_status(name, &params, &patch).await
    }

    /// Sets a label, or removes it.
    pub async fn label(&self, name: &str, label: &str, value: Option<&str>) -> kube::Result<K> {
        let patch = json!({"metadata": {"labels": {label: value}}});
        self.merge(name, patch).await
    }

    /// Removes the finalizers that hold an object.
    pub async fn free(&self, name: &str) -> kube::Result<K> {
        let patch = json!({"metadata": {"finalizers": null}});
        self.merge(name, patch).await
    }

    /// Deletes an object. Returns it if the server answers with it.
    pub async fn delete(&self, name: &str) -> kube::Result<Option<K>> {
        let params = DeleteParams::default();
        Ok(self.api.delete(name, &params).await?.left())
    }

    /// The same with a grace period in seconds.
    pub async fn delete_in(&self, seconds: u32, name: &str) -> kube::Result<Option<K>> {
        let params = DeleteParams::default().grace_period(seconds);
        Ok(self.api.delete(name, &params).await?.left())
    }

    /// The names of what is listed.
    pub async fn names(&self, params: &ListParams) -> Result<Vec<String>> {
        let list = self.api.list(params).await?;
        Ok(list.items.iter().map(ResourceExt::name_any).collect())
    }

    /// The version of the list as it is now.
    pub async fn version(&self) -> Result<u64> {
        let list = self.api.list(&ListParams::default()).await?;
        number(list.metadata.resource_version)
    }
}

/// The version of an object, which is higher after each write.
pub fn version_of(object: &impl ResourceExt) -> Result<u64> {
    number(object.resource_version())
}

fn number(version: Option<String>) -> Result<u64> {
    Ok(version.context("no version")?.parse()?)
}
