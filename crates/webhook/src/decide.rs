//! The decisions: a pod is refused with everything that is wrong with it, or gets one patch; a template gets
//! warnings. Pure: the same pod and the same knowledge give the same answer, and a pod that already carries its
//! patch gets no other.

use std::ops::RangeInclusive;

use gpushare_core::dialect::Dialects;
use gpushare_core::names;
use gpushare_core::validate::validate;
use gpushare_kube::admission::manifest::Manifest;
use serde_json::json;

use super::fill;
use super::patch::Patch;
use super::priority::{self, AtTheEnd, BudgetState, Classes};
use super::sidecar::{Sidecar, Wish};

/// A hostile pod must not fill logs and terminals.
const LONGEST_MESSAGE: usize = 8 * 1024;
/// The API server drops warnings beyond its limit.
const MOST_WARNINGS: usize = 16;

/// What the administrator has configured.
#[derive(Clone, Debug)]
pub struct Rules {
    pub dialects: Dialects,
    /// Priorities that pods may choose where a budget pays.
    pub band: RangeInclusive<i32>,
    /// `None` if pods cannot have a budget sidecar.
    pub sidecar: Option<Sidecar>,
}

/// What is known of the cluster when a pod is reviewed.
#[derive(Clone, Copy, Debug)]
pub struct ReviewContext<'a> {
    pub namespace: &'a str,
    pub budget: BudgetState,
    pub classes: &'a Classes,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Allowed { patch: Patch, warnings: Vec<String> },
    Denied { reason: Reason, message: String },
}

/// Why a pod is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its request is invalid.
    Request,
    /// It names a priority class that it may not have.
    Priority,
    /// It is not known yet whether a budget pays for it.
    Unknown,
    /// It cannot be read.
    Malformed,
}

impl Reason {
    pub fn label(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Priority => "priority",
            Self::Unknown => "unknown",
            Self::Malformed => "malformed",
        }
    }
}

impl Verdict {
    fn untouched() -> Self {
        Self::Allowed {
            patch: Patch::default(),
            warnings: Vec::new(),
        }
    }

    fn denied(reason: Reason, problems: &[String]) -> Self {
        let message = format!("gpushare: {}", problems.join(". "));
        Self::Denied {
            reason,
            message: cut(message),
        }
    }
}

/// Decides on a pod that is to be created.
pub fn pod(rules: &Rules, context: ReviewContext<'_>, pod: &Manifest) -> Verdict {
    let asks = validate(&rules.dialects, &fill::view(&rules.dialects, pod));
    if asks == Ok(None) {
        return Verdict::untouched();
    }
    let mut problems = match &asks {
        Ok(_) => Vec::new(),
        Err(violations) => violations.0.iter().map(ToString::to_string).collect(),
    };
    let sidecar = Wish::of(rules.sidecar.as_ref(), pod);
    problems.extend_from_slice(sidecar.problems());
    let class = priority::replacement(&pod.spec, context.budget, context.classes, &rules.band);
    let reason = if problems.is_empty() {
        Reason::Priority
    } else {
        Reason::Request
    };
    let class = match class {
        Ok(class) => class,
        Err(refusal) => {
            problems.push(refusal.to_string());
            None
        }
    };
    if !problems.is_empty() {
        return Verdict::denied(reason, &problems);
    }
    if context.budget == BudgetState::Unknown {
        let problem = format!(
            "the webhook does not know yet whether namespace {} has a budget; try again in a moment",
            context.namespace
        );
        return Verdict::denied(Reason::Unknown, &[problem]);
    }
    let mut patch = Patch::default();
    fill::fill(&rules.dialects, pod, &mut patch);
    if let Some(class) = class {
        give_class(pod, class, &mut patch);
    }
    if context.budget != BudgetState::Free {
        meter(pod, &mut patch);
    }
    if context.budget == BudgetState::Over(AtTheEnd::Wait) {
        hold(pod, &mut patch);
    }
    sidecar.write(pod, &mut patch);
    let notices = notice(context).into_iter().chain(sidecar.warnings(pod));
    Verdict::Allowed {
        patch,
        warnings: notices.take(MOST_WARNINGS).collect(),
    }
}

/// What the author of a template should know at once. Its pods are judged when they are created.
pub fn template(rules: &Rules, context: ReviewContext<'_>, template: &Manifest) -> Vec<String> {
    let asks = validate(&rules.dialects, &fill::view(&rules.dialects, template));
    let mut warnings = match &asks {
        Ok(None) => return Vec::new(),
        Ok(Some(_)) => Vec::new(),
        Err(violations) => violations.0.iter().map(ToString::to_string).collect(),
    };
    let sidecar = Wish::of(rules.sidecar.as_ref(), template);
    warnings.extend_from_slice(sidecar.problems());
    let class = priority::replacement(&template.spec, context.budget, context.classes, &rules.band);
    warnings.extend(class.err().map(|refusal| refusal.to_string()));
    let mut warnings: Vec<String> = warnings
        .into_iter()
        .map(|problem| cut(format!("gpushare: its pods will be refused: {problem}")))
        .collect();
    warnings.extend(notice(context));
    warnings.extend(sidecar.warnings(template));
    warnings.truncate(MOST_WARNINGS);
    warnings
}

fn notice(context: ReviewContext<'_>) -> Option<String> {
    let BudgetState::Over(at_the_end) = context.budget else {
        return None;
    };
    let effect = match at_the_end {
        AtTheEnd::Demote => "pods run only while no other pod needs the card, and may be evicted",
        AtTheEnd::Wait => "new pods wait until there is budget again",
    };
    let namespace = context.namespace;
    Some(format!(
        "gpushare: namespace {namespace} is over its GPU budget: {effect}"
    ))
}

/// Priority and preemption policy are removed: the API server fills them in again from the class, and would
/// refuse the pod if they belonged to another class.
fn give_class(pod: &Manifest, class: &str, patch: &mut Patch) {
    patch.add(["spec", "priorityClassName"], json!(class));
    if pod.spec.priority.is_some() {
        patch.remove(["spec", "priority"]);
    }
    if pod.spec.preemption_policy.is_some() {
        patch.remove(["spec", "preemptionPolicy"]);
    }
}

/// Adds the finalizer, which keeps the pod's object until its last second is charged.
fn meter(pod: &Manifest, patch: &mut Patch) {
    let finalizers = pod.metadata.finalizers.as_ref();
    let mut present = finalizers.into_iter().flatten();
    if !present.any(|name| name == names::METERING) {
        let value = json!(names::METERING);
        patch.append(["metadata", "finalizers"], finalizers.is_some(), value);
    }
}

/// Adds the gate: the scheduler does not look at the pod until the gate is removed.
fn hold(pod: &Manifest, patch: &mut Patch) {
    let gates = pod.spec.scheduling_gates.as_ref();
    let mut present = gates.into_iter().flatten();
    if !present.any(|gate| gate.name == names::BUDGET_GATE) {
        let value = json!({"name": names::BUDGET_GATE});
        patch.append(["spec", "schedulingGates"], gates.is_some(), value);
    }
}

fn cut(mut message: String) -> String {
    if message.len() > LONGEST_MESSAGE {
        let end = message.floor_char_boundary(LONGEST_MESSAGE);
        message.truncate(end);
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests;
