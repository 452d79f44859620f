//! One stored object: immutable JSON, its version, and its serialised form, which is made once for all readers.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use crate::json::Path;

/// An object as of one resourceVersion. Shared, never changed.
#[derive(Debug)]
pub(crate) struct Object {
    value: Value,
    version: u64,
    body: OnceLock<Bytes>,
}

impl Object {
    /// Seals a value at a version, which is written into its metadata.
    pub(crate) fn seal(mut value: Value, version: u64) -> Arc<Self> {
        value.put("metadata.resourceVersion", version.to_string());
        Arc::new(Self {
            value,
            version,
            body: OnceLock::new(),
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

    /// The object serialised without its kind and version, as in a list. Made once for all readers.
    pub(crate) fn body(&self) -> Bytes {
        self.body.get_or_init(|| body_of(&self.value)).clone()
    }

    /// The whole object serialised.
    pub(crate) fn json(&self) -> Bytes {
        let body = self.body();
        let text = |field| self.value.get(field).unwrap_or(&Value::Null);
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},",
            text("kind"),
            text("apiVersion")
        );
        let mut out = BytesMut::with_capacity(body.len() + head.len());
        out.put_slice(head.as_bytes());
        // Every object has metadata, so the body is never just `{}`.
        out.put_slice(body.strip_prefix(b"{").unwrap_or_default());
        out.freeze()
    }
}

/// A value serialised without its kind and version.
pub(crate) fn body_of(value: &Value) -> Bytes {
    let fields = value.as_object().into_iter().flatten();
    let kept = fields.filter(|(key, _)| *key != "kind" && *key != "apiVersion");
    let kept: BTreeMap<&String, &Value> = kept.collect();
    // JSON values always serialise.
    serde_json::to_string(&kept).unwrap_or_default().into()
}
