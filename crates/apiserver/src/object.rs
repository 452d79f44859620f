//! One stored object: immutable JSON, its version, and its serialised form made once for all readers.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use crate::json::Path;

/// An object as of one resourceVersion. Shared, never changed.
#[derive(Debug)]
pub(crate) struct Object {
    value: Value,
    version: u64,
    json: OnceLock<Bytes>,
}

impl Object {
    /// Seals a value at a version, which is written into its metadata.
    pub(crate) fn seal(mut value: Value, version: u64) -> Arc<Self> {
        value.put("metadata.resourceVersion", version.to_string());
        Arc::new(Self {
            value,
            version,
            json: OnceLock::new(),
        })
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn namespace(&self) -> &str {
        self.value.text("metadata.namespace")
    }

    pub(crate) fn name(&self) -> &str {
        self.value.text("metadata.name")
    }

    /// The serialised object, shared by every list and watch that sends it.
    pub(crate) fn json(&self) -> Bytes {
        self.json
            .get_or_init(|| self.value.to_string().into())
            .clone()
    }
}
