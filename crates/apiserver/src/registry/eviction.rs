//! Eviction: a deletion that disruption budgets can refuse.

use serde_json::{Value, json};

use super::binding::set_condition;
use super::delete::check_preconditions;
use super::{DeleteOptions, Registry, Target, Write};
use crate::failure::Failure;
use crate::json::Path;
use crate::selector::LabelSelector;
use crate::store::{Store, TableId};

/// Whether a disruption budget allows the eviction of a pod.
enum Verdict {
    /// Evict; the budget is not touched.
    Free,
    /// Evict, and count it against the budget.
    Counted(Value),
}

impl Registry {
    pub(crate) fn evict(
        &self,
        target: &Target<'_>,
        options: &DeleteOptions,
        write: &Write,
    ) -> Result<(), Failure> {
        let mut store = self.store();
        self.admit_namespace(&store, target, &target.name)?;
        let pod = target.current(&store)?;
        check_preconditions(target, options, pod.value())?;
        let budgets = self.built_in("policy", "poddisruptionbudgets")?.table;
        let verdict = judge(&store, budgets, pod.value())?;
        if write.dry_run {
            return Ok(());
        }
        if let Verdict::Counted(mut budget) = verdict {
            let left = budget.int("status.disruptionsAllowed").unwrap_or(0) - 1;
            budget.put("status.disruptionsAllowed", left);
            let disrupted = budget.map_mut("status.disruptedPods");
            disrupted.insert(target.name.clone(), write.stamp.time().into());
            store.put(budgets, budget);
        }
        let mut value = pod.value().clone();
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        set_condition(&mut value, &condition, &write.stamp.time());
        if value != *pod.value() {
            store.put(target.served.table, value);
        }
        let options = DeleteOptions {
            uid: None,
            version: None,
            ..options.clone()
        };
        self.remove(&mut store, target, &options, write).map(drop)
    }
}

fn judge(store: &Store, budgets: TableId, pod: &Value) -> Result<Verdict, Failure> {
    let phase = pod.text("status.phase");
    let already_down = matches!(phase, "Succeeded" | "Failed" | "Pending")
        || pod.at("metadata.deletionTimestamp").is_some();
    if already_down {
        return Ok(Verdict::Free);
    }
    let labels = pod.map("metadata.labels");
    let mut guarding = store.scan(budgets, Some(pod.text("metadata.namespace")));
    guarding.retain(|budget| {
        let selector = LabelSelector::from_object(budget.value().at("spec.selector"));
        selector.is_some_and(|selector| selector.matches(labels))
    });
    let budget = match guarding.as_slice() {
        [] => return Ok(Verdict::Free),
        [budget] => budget.value(),
        _ => {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction \
                           subresource does not support.";
            let mut failure = Failure::internal(message);
            message.clone_into(&mut failure.message);
            return Err(failure);
        }
    };
    let count = |field: &str| budget.int(field).unwrap_or(0);
    let healthy = count("status.currentHealthy");
    let needed = count("status.desiredHealthy");
    if !is_ready(pod) {
        let always = budget.text("spec.unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (healthy >= needed && needed > 0) {
            return Ok(Verdict::Free);
        }
    }
    let name = budget.text("metadata.name");
    if count("status.observedGeneration") < count("metadata.generation") {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(Some(10), why));
    }
    if count("status.disruptionsAllowed") <= 0 {
        let why = if healthy <= needed {
            format!(
                "The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
            )
        } else {
            format!("The disruption budget {name} does not allow evicting pods currently")
        };
        return Err(refused(None, why));
    }
    Ok(Verdict::Counted(budget.clone()))
}

fn refused(retry_after_seconds: Option<u32>, why: String) -> Failure {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Failure::too_many_requests(message, retry_after_seconds).with_cause("DisruptionBudget", why, "")
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod.list("status.conditions").iter();
    conditions.any(|c| c.text("type") == "Ready" && c.text("status") == "True")
}
