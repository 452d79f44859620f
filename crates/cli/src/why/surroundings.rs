//! What affects the pod besides nodes: quotas and the budget of its namespace, volume claims, its priority
//! class, its scheduler.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_kube::totals::{self, CPU, MEMORY, PODS, Totals};
use k8s_openapi::api::core::v1::ResourceQuota;

use super::pod::{DEFAULT_SCHEDULER, Pod};

#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    /// Read only for pods that do not exist yet: existing pods have passed their quotas.
    pub(super) quotas: Vec<Quota>,
    pub(super) budget: Option<Budget>,
    pub(super) missing_claims: BTreeSet<String>,
    pub(super) missing_class: Option<String>,
    /// The pod's scheduler, if there is no sign that it runs.
    pub(super) unknown_scheduler: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Quota {
    name: String,
    hard: BTreeMap<String, i64>,
    used: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    pub(super) quota: String,
    /// The quota's name for the resource, such as `requests.gpushare.io/gpu-mem`.
    pub(super) counted: String,
    /// The name of the resource in containers.
    pub(super) resource: String,
    pub(super) needed: i64,
    pub(super) used: i64,
    pub(super) hard: i64,
}

impl Shortage {
    /// The least amount that the quota must allow for the pod to pass.
    pub(super) fn enough(&self) -> i64 {
        self.used.saturating_add(self.needed)
    }
}

/// The budget that the namespace pays from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) name: String,
    pub(super) used: Option<String>,
    pub(super) resets: Option<String>,
}

impl Quota {
    /// `None` for a quota that counts only some pods: whether this pod is one of them depends on more than we read.
    pub(super) fn read(quota: &ResourceQuota) -> Option<Self> {
        let spec = quota.spec.as_ref()?;
        let scoped = spec.scopes.iter().flatten().next().is_some();
        if scoped || spec.scope_selector.is_some() {
            return None;
        }
        let status = quota.status.as_ref();
        let amounts =
            |all: Option<&BTreeMap<_, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>| {
                let all = all.into_iter().flatten();
                all.map(|(name, quantity): (&String, _)| {
                    (name.clone(), totals::amount(resource_of(name), &quantity.0))
                })
                .collect()
            };
        Some(Self {
            name: quota.metadata.name.clone().unwrap_or_default(),
            hard: amounts(spec.hard.as_ref()),
            used: amounts(status.and_then(|status| status.used.as_ref())),
        })
    }

    fn exceeded(&self, pod: &Pod) -> Option<Shortage> {
        self.hard.iter().find_map(|(counted, hard)| {
            let resource = resource_of(counted);
            let of = |totals: &Totals| totals.get(resource).copied().unwrap_or(0);
            let needed = match counted.as_str() {
                "limits.cpu" | "limits.memory" => of(&pod.limits),
                // For extended resources such as ours, quotas count only requests.
                name if name.contains('/')
                    && !name.starts_with("requests.")
                    && resource != PODS =>
                {
                    0
                }
                _ => of(&pod.needs),
            };
            let used = self.used.get(counted).copied().unwrap_or(0);
            (needed > 0 && used.saturating_add(needed) > *hard).then(|| Shortage {
                quota: self.name.clone(),
                counted: counted.clone(),
                resource: resource.to_owned(),
                needed,
                used,
                hard: *hard,
            })
        })
    }
}

/// The resource that a quota counts under this name.
fn resource_of(counted: &str) -> &str {
    match counted {
        "count/pods" => PODS,
        "limits.cpu" => CPU,
        "limits.memory" => MEMORY,
        other => other.strip_prefix("requests.").unwrap_or(other),
    }
}

impl Surroundings {
    /// The first quota that the pod would exceed.
    pub(super) fn exceeded(&self, pod: &Pod) -> Option<Shortage> {
        self.quotas.iter().find_map(|quota| quota.exceeded(pod))
    }

    pub(super) fn raise_quota(&mut self, name: &str, counted: &str, hard: i64) {
        let quota = self.quotas.iter_mut().find(|quota| quota.name == name);
        if let Some(quota) = quota {
            quota.hard.insert(counted.to_owned(), hard);
        }
    }

    pub(super) fn is_nobody(&self, scheduler: &str) -> bool {
        scheduler != DEFAULT_SCHEDULER && self.unknown_scheduler.as_deref() == Some(scheduler)
    }

    pub(super) fn lacks_claim(&self, claim: &str) -> bool {
        self.missing_claims.contains(claim)
    }
}
