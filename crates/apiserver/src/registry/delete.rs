//! Delete with preconditions: at once, after a grace period, or when the finalizers are gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{ObjectList, Registry, Target, Write, seconds};
use crate::failure::Failure;
use crate::json::Path;
use crate::object::Object;
use crate::store::Store;
use crate::watch::Filter;

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
}

/// What happened to the object.
#[derive(Debug)]
pub(crate) enum DeleteOutcome {
    Gone(Arc<Object>),
    /// Marked but still stored: it waits for its grace period or its finalizers.
    Dying(Arc<Object>),
}

impl DeleteOutcome {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            Self::Gone(object) | Self::Dying(object) => object,
        }
    }
}

/// What a deletion request means for an object, which may already be terminating.
enum Grace {
    /// The object is already terminating, and the request does not shorten its grace period.
    Pending,
    /// Set the object's deadline, or replace an earlier one.
    Mark { at: Timestamp, seconds: i64 },
    /// Nothing to mark: the kind has no grace period, or the object is already marked with zero.
    None,
}

impl Registry {
    pub(crate) fn delete(
        &self,
        target: &Target<'_>,
        options: &DeleteOptions,
        write: &Write,
    ) -> Result<DeleteOutcome, Failure> {
        let mut store = self.store();
        self.remove(&mut store, target, options, write)
    }

    /// Deletes every object of a collection that the filter selects.
    pub(crate) fn delete_collection(
        &self,
        target: &Target<'_>,
        filter: &Filter,
        options: &DeleteOptions,
        write: &Write,
    ) -> Result<ObjectList, Failure> {
        let mut store = self.store();
        let mut items = store.scan(target.served.table, filter.namespace.as_deref());
        items.retain(|object| filter.matches(object));
        let version = store.version();
        for object in &items {
            let target = Target {
                served: target.served,
                namespace: object.namespace().to_owned(),
                name: object.name().to_owned(),
            };
            match self.remove(&mut store, &target, options, write) {
                Err(failure) if failure.reason != "NotFound" => return Err(failure),
                _ => {}
            }
        }
        Ok(ObjectList {
            items,
            version,
            next: None,
            remaining: None,
        })
    }

    pub(super) fn remove(
        &self,
        store: &mut Store,
        target: &Target<'_>,
        options: &DeleteOptions,
        write: &Write,
    ) -> Result<DeleteOutcome, Failure> {
        let (resource, table) = (target.resource(), target.served.table);
        let current = target.current(store)?;
        check_preconditions(target, options, current.value())?;
        if resource.is("", "namespaces") {
            return self.terminate_namespace(store, target, &current, write);
        }
        let now = write.stamp.now;
        let grace = if resource.is("", "pods") {
            pod_grace(current.value(), options, now)
        } else {
            Grace::None
        };
        let pending_finalizers = !current.value().list("metadata.finalizers").is_empty();
        let mut value = current.value().clone();
        let marked = match grace {
            Grace::Pending => return Ok(DeleteOutcome::Dying(current)),
            Grace::Mark { at, seconds } => {
                mark(&mut value, at, seconds);
                Some(seconds)
            }
            Grace::None if pending_finalizers => {
                let at = deletion_time(&value).map_or(now, |already| already.min(now));
                mark(&mut value, at, 0);
                Some(0)
            }
            Grace::None => None,
        };
        if write.dry_run {
            return Ok(DeleteOutcome::Dying(Object::seal(value, current.version())));
        }
        if let Some(seconds) = marked {
            // Marking is a separate write even if the removal follows at once: watchers see both.
            let object = if value == *current.value() {
                current
            } else {
                store.put(table, value)
            };
            if seconds > 0 || pending_finalizers {
                return Ok(DeleteOutcome::Dying(object));
            }
        }
        let last = store.remove(table, &target.namespace, &target.name);
        let last = last.ok_or_else(|| target.not_found())?;
        self.finish_namespace(store, &target.namespace)?;
        Ok(DeleteOutcome::Gone(last))
    }

    fn terminate_namespace(
        &self,
        store: &mut Store,
        target: &Target<'_>,
        current: &Arc<Object>,
        write: &Write,
    ) -> Result<DeleteOutcome, Failure> {
        let mut value = current.value().clone();
        if value.at("metadata.deletionTimestamp").is_none() {
            value.put("metadata.deletionTimestamp", write.stamp.time());
            value.put("status.phase", "Terminating");
        }
        if write.dry_run {
            return Ok(DeleteOutcome::Dying(Object::seal(value, current.version())));
        }
        let marked = if value == *current.value() {
            Arc::clone(current)
        } else {
            store.put(target.served.table, value)
        };
        self.empty_namespace(store, &target.name, write)?;
        Ok(DeleteOutcome::Dying(marked))
    }
}

fn pod_grace(pod: &Value, options: &DeleteOptions, now: Timestamp) -> Grace {
    let asked = options
        .grace_seconds
        .map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(deadline) = deletion_time(pod) else {
        let finished = matches!(pod.text("status.phase"), "Failed" | "Succeeded");
        let unplaced = pod.text("spec.nodeName").is_empty();
        let own = pod.int("spec.terminationGracePeriodSeconds").unwrap_or(0);
        let seconds = if finished || unplaced {
            0
        } else {
            asked.unwrap_or(own)
        };
        return Grace::Mark {
            at: later(now, seconds),
            seconds,
        };
    };
    let current = pod.int("metadata.deletionGracePeriodSeconds").unwrap_or(0);
    match asked {
        _ if current == 0 => Grace::None,
        // A grace period can only be shortened; it counts from when the deletion was first requested.
        Some(seconds) if seconds < current => {
            let at = later(deadline, seconds - current);
            if at >= now {
                return Grace::Mark { at, seconds };
            }
            Grace::Mark {
                at: now,
                seconds: seconds.min(1),
            }
        }
        _ => Grace::Pending,
    }
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(time)
}

fn deletion_time(value: &Value) -> Option<Timestamp> {
    value.text("metadata.deletionTimestamp").parse().ok()
}

fn mark(value: &mut Value, at: Timestamp, grace: i64) {
    if let (None, Some(generation)) = (
        value.at("metadata.deletionTimestamp"),
        value.int("metadata.generation"),
    ) {
        value.put("metadata.generation", generation + 1);
    }
    value.put("metadata.deletionTimestamp", seconds(at));
    value.put("metadata.deletionGracePeriodSeconds", grace);
}

pub(super) fn check_preconditions(
    target: &Target<'_>,
    options: &DeleteOptions,
    current: &Value,
) -> Result<(), Failure> {
    let checks = [
        (
            "UID",
            &options.uid,
            "metadata.uid",
            "deleted and then recreated",
        ),
        (
            "ResourceVersion",
            &options.version,
            "metadata.resourceVersion",
            "modified",
        ),
    ];
    for (what, wanted, field, maybe) in checks {
        let actual = current.text(field);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record \
                 ({actual}). The object might have been {maybe}"
            );
            return Err(Failure::kind_conflict(
                target.resource(),
                &target.name,
                &why,
            ));
        }
    }
    Ok(())
}
