//! A JSON patch under construction.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::Value;

/// Operations in the order in which they are done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch(json_patch::Patch);

impl Patch {
    pub fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }

    pub(super) fn add<'a>(&mut self, path: impl IntoIterator<Item = &'a str>, value: Value) {
        let path = PointerBuf::from_tokens(path);
        let operation = PatchOperation::Add(AddOperation { path, value });
        self.0.0.push(operation);
    }

    pub(super) fn remove<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) {
        let path = PointerBuf::from_tokens(path);
        let operation = PatchOperation::Remove(RemoveOperation { path });
        self.0.0.push(operation);
    }

    /// Appends a value to a list, which is created if it does not exist.
    pub(super) fn append<const N: usize>(&mut self, path: [&str; N], exists: bool, value: Value) {
        if exists {
            self.add(path.into_iter().chain(["-"]), value);
        } else {
            self.add(path, Value::Array(vec![value]));
        }
    }

    /// As the API server reads it.
    pub fn json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&self.0)
    }
}
