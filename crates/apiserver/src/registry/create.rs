//! Create: stores a new object with its identity and defaults, or refuses it.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::decode::{DecodedObject, settle_namespace};
use super::{Registry, Target, Write, WriteOutcome};
use crate::failure::Failure;
use crate::fields::{Entry, FieldSet, Managers, Operation};
use crate::json::Path;
use crate::object::Object;
use crate::resource::Resource;
use crate::rules;
use crate::store::Store;
use crate::typed;

/// How the fields of a new object are owned.
#[derive(Debug)]
pub(super) enum Birth {
    Update,
    Apply(FieldSet),
}

/// The letters of generated names: no vowels, so that they form no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const ATTEMPTS: usize = 3;
/// A generated name leaves room for its suffix.
const PREFIX_LIMIT: usize = 63 - SUFFIX;

impl Registry {
    pub(crate) fn create(
        &self,
        target: &Target<'_>,
        decoded: DecodedObject,
        write: &Write,
    ) -> Result<WriteOutcome, Failure> {
        let mut store = self.store();
        let generated = decoded.value.text("metadata.name").is_empty()
            && !decoded.value.text("metadata.generateName").is_empty();
        if !generated {
            let object = self.insert(&mut store, target, decoded.value, write, &Birth::Update)?;
            return Ok(WriteOutcome::created(object, decoded.warnings));
        }
        let mut attempt = 0;
        loop {
            let mut value = decoded.value.clone();
            let prefix = value.text("metadata.generateName");
            let name = generated_name(prefix, write.stamp.uid, attempt);
            value.put("metadata.name", name);
            match self.insert(&mut store, target, value, write, &Birth::Update) {
                Err(failure) if failure.reason == "AlreadyExists" && attempt + 1 < ATTEMPTS => {
                    attempt += 1;
                }
                Err(failure) => return Err(failure),
                Ok(object) => return Ok(WriteOutcome::created(object, decoded.warnings)),
            }
        }
    }

    /// Stores a new object; PUT and apply create objects with it too.
    pub(super) fn insert(
        &self,
        store: &mut Store,
        target: &Target<'_>,
        mut value: Value,
        write: &Write,
        birth: &Birth,
    ) -> Result<Arc<Object>, Failure> {
        let resource = target.resource();
        if !value.text("metadata.resourceVersion").is_empty() {
            return Err(Failure::bare(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        settle_namespace(target, &mut value)?;
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "managedFields",
        ] {
            value.remove(&format!("metadata.{field}"));
        }
        value.put("metadata.uid", write.stamp.uid.to_string());
        value.put("metadata.creationTimestamp", write.stamp.time());
        let mut managers = Managers::default();
        match birth {
            Birth::Update => {
                let writer = write.entry(resource, Operation::Update);
                managers.updated(writer, &Value::Null, &value);
            }
            Birth::Apply(owned) => {
                let writer = write.entry(resource, Operation::Apply);
                managers.applied(
                    Entry {
                        fields: owned.clone(),
                        ..writer
                    },
                    &FieldSet::default(),
                );
            }
        }
        managers.write(&mut value);
        let mut value = target.served.stored(value);
        rules::default_object(resource, &mut value);
        rules::prepare_create(resource, &mut value);
        self.admit_create(store, target, &mut value)?;
        if !write.mutations.is_empty() {
            value = mutated(resource, value, &write.mutations)?;
            // The changes of webhooks must pass the built-in admission checks too.
            self.admit_create(store, target, &mut value)?;
        }
        let mut causes = rules::check_create(resource, &value);
        if let Some(view) = target.served.view {
            causes.extend((view.check)(&value));
        }
        let name = value.text("metadata.name").to_owned();
        if !causes.is_empty() {
            return Err(Failure::invalid(resource, &name, causes));
        }
        if let Some(existing) = store.get(target.served.table, &target.namespace, &name) {
            let dying = existing.value().at("metadata.deletionTimestamp").is_some();
            return Err(if dying {
                Failure::already_exists_deleting(resource, &name)
            } else {
                Failure::already_exists(resource, &name)
            });
        }
        if write.dry_run {
            return Ok(Object::seal(value, store.version()));
        }
        let object = store.put(target.served.table, value);
        if resource.is("", "namespaces") {
            self.furnish_namespace(store, &name, write)?;
        }
        Ok(object)
    }
}

/// The object as admission webhooks leave it.
fn mutated(
    resource: &Resource,
    mut value: Value,
    mutations: &[json_patch::Patch],
) -> Result<Value, Failure> {
    let broken = |why: String| {
        Failure::internal(format!("an admission webhook's patch does not fit: {why}"))
    };
    for patch in mutations {
        json_patch::patch(&mut value, patch).map_err(|error| broken(error.to_string()))?;
    }
    let mut value = typed::canonical(resource, value).map_err(broken)?.value;
    rules::default_object(resource, &mut value);
    Ok(value)
}

fn generated_name(prefix: &str, random: Uuid, attempt: usize) -> String {
    let prefix = prefix.get(..PREFIX_LIMIT).unwrap_or(prefix);
    let bytes = random.as_bytes().iter().skip(attempt * SUFFIX).take(SUFFIX);
    let letters = bytes.filter_map(|byte| LETTERS.get(usize::from(*byte) % LETTERS.len()));
    let suffix: String = letters.map(|letter| char::from(*letter)).collect();
    format!("{prefix}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_differ_by_attempt_and_stay_short() {
        let random = Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
        let names: Vec<_> = (0..ATTEMPTS)
            .map(|n| generated_name("job-", random, n))
            .collect();
        assert!(
            names
                .iter()
                .all(|name| name.starts_with("job-") && name.len() == 9)
        );
        assert!(names[0] != names[1] && names[1] != names[2]);
        assert_eq!(generated_name(&"x".repeat(100), random, 0).len(), 63);
    }
}
