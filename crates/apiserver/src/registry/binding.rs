//! Binding: a pod gets its node, and the annotations and labels that explain the choice, in one write.

use serde_json::{Value, json};

use super::update::precondition;
use super::{Registry, Stamp, Target};
use crate::failure::Failure;
use crate::json::Path;

impl Registry {
    /// Binds the target pod as the Binding says; whether the node exists is not checked.
    pub(crate) fn bind(
        &self,
        target: &Target<'_>,
        binding: &Value,
        stamp: &Stamp,
        dry_run: bool,
    ) -> Result<(), Failure> {
        if binding.text("metadata.name") != target.name {
            let message = "name in URL does not match name in Binding object";
            return Err(Failure::bad_request(message));
        }
        check_target(binding)?;
        let mut store = self.store();
        self.admit_namespace(&store, target, &target.name)?;
        let current = target.current(&store)?;
        for (what, field) in [
            ("UID", "metadata.uid"),
            ("ResourceVersion", "metadata.resourceVersion"),
        ] {
            let (wanted, actual) = (binding.text(field), current.value().text(field));
            if !wanted.is_empty() && wanted != actual {
                let why = precondition(target, what, wanted, actual);
                return Err(Failure::conflict(target.resource(), &target.name, &why));
            }
        }
        if let Some(why) = obstacle(current.value()) {
            let resource = target.resource();
            let name = &target.name;
            return Err(Failure::subresource_conflict(
                resource, "binding", name, &why,
            ));
        }
        if dry_run {
            return Ok(());
        }
        let mut pod = current.value().clone();
        assign(&mut pod, binding, &stamp.time());
        store.put(target.served.table, pod);
        Ok(())
    }
}

fn check_target(binding: &Value) -> Result<(), Failure> {
    let kind = binding.text("target.kind");
    if !kind.is_empty() && kind != "Node" {
        return Err(Failure::bare(format!(
            "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
        )));
    }
    if binding.text("target.name").is_empty() {
        return Err(Failure::bare("target.name: Required value"));
    }
    Ok(())
}

/// Why a pod cannot be bound now.
fn obstacle(pod: &Value) -> Option<String> {
    let name = pod.text("metadata.name");
    if pod.at("metadata.deletionTimestamp").is_some() {
        return Some(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    let node = pod.text("spec.nodeName");
    if !node.is_empty() {
        return Some(format!("pod {name} is already assigned to node {node:?}"));
    }
    if !pod.list("spec.schedulingGates").is_empty() {
        return Some(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    None
}

fn assign(pod: &mut Value, binding: &Value, time: &str) {
    pod.put("spec.nodeName", binding.text("target.name"));
    pod.remove("status.nominatedNodeName");
    for field in ["metadata.annotations", "metadata.labels"] {
        if let Some(added) = binding.map(field) {
            pod.map_mut(field).extend(added.clone());
        }
    }
    let scheduled = json!({"type": "PodScheduled", "status": "True"});
    set_condition(pod, &scheduled, time);
}

/// Sets a condition; its transition time changes only with its status.
pub(super) fn set_condition(pod: &mut Value, condition: &Value, time: &str) {
    let mut condition = condition.clone();
    let mut conditions = pod.list("status.conditions").to_vec();
    let kind = condition.text("type").to_owned();
    let old = conditions.iter_mut().find(|c| c.text("type") == kind);
    let same_status = old
        .as_ref()
        .is_some_and(|old| old.text("status") == condition.text("status"));
    match &old {
        Some(old) if same_status => condition.copy("lastTransitionTime", old),
        _ => condition.put("lastTransitionTime", time),
    }
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
    pod.put("status.conditions", conditions);
}
