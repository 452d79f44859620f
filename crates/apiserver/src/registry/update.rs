//! Update and patch: one read, change and write of an object, refused if another client was faster.

use std::sync::Arc;

use serde_json::Value;

use super::create::Birth;
use super::decode::{DecodedObject, decode_patched, settle_name, settle_namespace};
use super::{Registry, Target, Write, WriteOutcome};
use crate::failure::{Cause, Failure};
use crate::fields::{Entry, FieldSet, Managers, Operation, timeless};
use crate::json::Path;
use crate::object::Object;
use crate::patch::{Applied, Patch, apply, patched};
use crate::rules::{self, Part};
use crate::store::Store;
use crate::typed::{self, is_built_in};

/// A changed object and how its fields come to be owned.
#[derive(Debug)]
struct Proposal {
    value: Value,
    applied: Option<(FieldSet, FieldSet)>,
    warnings: Vec<String>,
}

impl Registry {
    /// PUT: the body is the whole object.
    pub(crate) fn replace(
        &self,
        target: &Target<'_>,
        decoded: DecodedObject,
        write: &Write,
    ) -> Result<WriteOutcome, Failure> {
        let DecodedObject {
            mut value,
            warnings,
        } = decoded;
        settle_namespace(target, &mut value)?;
        settle_name(target, &value)?;
        let mut store = self.store();
        let Some(current) = target.find(&store) else {
            if write.part == Part::Main && target.resource().habits.create_on_update {
                require_uid(target, value.text("metadata.uid"), "")?;
                // kube-apiserver checks the version only if there is an object to compare it with.
                value.remove("metadata.resourceVersion");
                let object = self.insert(&mut store, target, value, write, &Birth::Update)?;
                return Ok(WriteOutcome::created(object, warnings));
            }
            return Err(target.not_found());
        };
        let uid = current.value().text("metadata.uid");
        require_uid(target, value.text("metadata.uid"), uid)?;
        let proposal = Proposal {
            value,
            applied: None,
            warnings,
        };
        self.store_change(&mut store, target, &current, proposal, write)
    }

    /// PATCH in any of its formats.
    pub(crate) fn patch(
        &self,
        target: &Target<'_>,
        patch: &Patch,
        write: &Write,
    ) -> Result<WriteOutcome, Failure> {
        let resource = target.resource();
        if matches!(patch, Patch::Strategic(_)) && !is_built_in(resource) {
            let accepted = "application/json-patch+json, application/merge-patch+json, \
                            application/apply-patch+yaml";
            return Err(Failure::unsupported_media_type(accepted));
        }
        let mut store = self.store();
        let current = target.find(&store);
        if let Patch::Apply { config, force } = patch {
            return self.apply(&mut store, target, current, config, *force, write);
        }
        let current = current.ok_or_else(|| target.not_found())?;
        let value = patched(patch, &target.served.shown(&current))?;
        let decoded = decode_patched(resource, value, write.unknown_fields)?;
        let proposal = Proposal {
            value: decoded.value,
            applied: None,
            warnings: decoded.warnings,
        };
        self.store_change(&mut store, target, &current, proposal, write)
    }

    fn apply(
        &self,
        store: &mut Store,
        target: &Target<'_>,
        current: Option<Arc<Object>>,
        config: &Value,
        force: bool,
        write: &Write,
    ) -> Result<WriteOutcome, Failure> {
        let resource = target.resource();
        let config = check_config(target, config)?;
        let uid = config.text("metadata.uid");
        if current.is_none() && !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Failure::conflict(resource, &target.name, &why));
        }
        let writer = write.entry(resource, Operation::Apply);
        let live = current.as_ref().map_or_else(
            || Value::Object(serde_json::Map::new()),
            |object| target.served.shown(object),
        );
        let Applied {
            value,
            mut owned,
            taken,
        } = apply(&live, &config, &writer, force)?;
        match write.part {
            Part::Main if resource.subresource("status").is_some() => owned.remove_field("status"),
            Part::Status => owned.remove_field("spec"),
            _ => {}
        }
        let decoded = decode_patched(resource, value, write.unknown_fields)?;
        match current {
            None if write.part == Part::Main => {
                let birth = Birth::Apply(owned);
                let object = self.insert(store, target, decoded.value, write, &birth)?;
                Ok(WriteOutcome::created(object, decoded.warnings))
            }
            None => Err(target.not_found()),
            Some(current) => {
                let proposal = Proposal {
                    value: decoded.value,
                    applied: Some((owned, taken)),
                    warnings: decoded.warnings,
                };
                self.store_change(store, target, &current, proposal, write)
            }
        }
    }

    fn store_change(
        &self,
        store: &mut Store,
        target: &Target<'_>,
        current: &Arc<Object>,
        proposal: Proposal,
        write: &Write,
    ) -> Result<WriteOutcome, Failure> {
        let resource = target.resource();
        let Proposal {
            mut value,
            applied,
            warnings,
        } = proposal;
        settle_namespace(target, &mut value)?;
        settle_name(target, &value)?;
        require_version(target, &value, current)?;
        let mut value = target.served.stored(value);
        let old = current.value();
        rules::default_object(resource, &mut value);
        rules::prepare_update(resource, write.part, &mut value, old);
        keep_identity(&mut value, old);
        let causes = rules::check_update(resource, write.part, &value, old);
        if !causes.is_empty() {
            return Err(Failure::invalid(resource, &target.name, causes));
        }
        credit(target, &mut value, old, applied, write);
        value.copy("metadata.resourceVersion", old);
        let object = if timeless(&value) == timeless(old) {
            Arc::clone(current)
        } else if write.dry_run {
            Object::seal(value, current.version())
        } else if is_finished(&value, old) {
            store.remove(target.served.table, &target.namespace, &target.name);
            self.finish_namespace(store, &target.namespace)?;
            Object::seal(value, store.version())
        } else {
            let object = store.put(target.served.table, value);
            if resource.is("", "namespaces") {
                self.finish_namespace(store, &target.name)?;
            }
            object
        };
        Ok(WriteOutcome {
            object,
            created: false,
            warnings,
        })
    }
}

/// Records in managedFields who owns what after this write.
fn credit(
    target: &Target<'_>,
    value: &mut Value,
    old: &Value,
    applied: Option<(FieldSet, FieldSet)>,
    write: &Write,
) {
    let resource = target.resource();
    let mut managers = Managers::read(old);
    if let Some((owned, taken)) = applied {
        let writer = write.entry(resource, Operation::Apply);
        managers.applied(
            Entry {
                fields: owned,
                ..writer
            },
            &taken,
        );
    } else {
        let writer = write.entry(resource, Operation::Update);
        match target.served.view {
            Some(view) => managers.updated(writer, &(view.read)(old), &(view.read)(value)),
            None => managers.updated(writer, old, value),
        }
    }
    managers.write(value);
}

/// Restores what no update can change, whatever the client sends.
fn keep_identity(value: &mut Value, old: &Value) {
    if value.text("metadata.uid").is_empty() {
        value.copy("metadata.uid", old);
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        value.copy(&format!("metadata.{field}"), old);
    }
}

/// Whether the last finalizer of an object that is being deleted was just removed.
fn is_finished(new: &Value, old: &Value) -> bool {
    new.list("metadata.finalizers").is_empty()
        && old.at("metadata.deletionTimestamp").is_some()
        && old.int("metadata.deletionGracePeriodSeconds").unwrap_or(0) == 0
        && new.text("kind") != "Namespace"
}

fn require_version(target: &Target<'_>, value: &Value, current: &Object) -> Result<(), Failure> {
    let resource = target.resource();
    let wanted = value.text("metadata.resourceVersion");
    if wanted.is_empty() || wanted == "0" {
        if resource.habits.unconditional_update {
            return Ok(());
        }
        let cause = Cause::invalid(
            "metadata.resourceVersion",
            &0.into(),
            "must be specified for an update",
        );
        let (kind, group) = (resource.plural, resource.group);
        return Err(Failure::invalid_kind(
            kind,
            group,
            &target.name,
            vec![cause],
        ));
    }
    match wanted.parse::<u64>() {
        Ok(version) if version == current.version() => Ok(()),
        Ok(_) => Err(Failure::stale(resource, &target.name)),
        Err(_) => Err(Failure::bare(format!(
            "resourceVersion {wanted:?} is not a number"
        ))),
    }
}

fn require_uid(target: &Target<'_>, wanted: &str, actual: &str) -> Result<(), Failure> {
    if wanted.is_empty() || wanted == actual {
        return Ok(());
    }
    let why = precondition(target, "UID", wanted, actual);
    Err(Failure::conflict(target.resource(), &target.name, &why))
}

/// The text of a failed precondition; only this text distinguishes it from other conflicts.
pub(super) fn precondition(target: &Target<'_>, what: &str, wanted: &str, actual: &str) -> String {
    let path = crate::store::key(&target.namespace, &target.name);
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{path}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in \
         object meta: {actual}",
        target.resource().plural
    )
}

/// Checks what an applied configuration must and must not contain.
fn check_config(target: &Target<'_>, config: &Value) -> Result<Value, Failure> {
    let resource = target.resource();
    if config.list("metadata.managedFields") != [] as [Value; 0] {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    if config.text("kind") != resource.kind || config.text("apiVersion") != resource.api_version() {
        let message = format!(
            "the applied configuration must say apiVersion {} and kind {}",
            resource.api_version(),
            resource.kind
        );
        return Err(Failure::bad_request(message));
    }
    let mut config = config.clone();
    settle_namespace(target, &mut config)?;
    if config.text("metadata.name").is_empty() {
        config.put("metadata.name", target.name.as_str());
    }
    settle_name(target, &config)?;
    // Unlike the other patches, an apply is refused for fields the kind does not have.
    let typed = typed::canonical(resource, config.clone());
    let problem = match typed {
        Ok(canonical) => canonical
            .unknown
            .first()
            .map(|field| format!(".{field}: not a field")),
        Err(why) => Some(why),
    };
    match problem {
        Some(why) => Err(Failure::bare(format!(
            "failed to create typed patch object: {why}"
        ))),
        None => Ok(config),
    }
}
