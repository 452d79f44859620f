//! PodDisruptionBudget: how many of its pods may be evicted now.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde_json::json;

use super::Controllers;
use super::owned::{is_active, is_ready};

impl Controllers {
    pub(super) async fn look_at_budgets(&self, namespace: &str) -> Result<(), kube::Error> {
        for budget in self.budgets.in_namespace(namespace) {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let mut pods = self.pods.in_namespace(namespace);
            pods.retain(|pod| is_active(pod) && selector.is_some_and(|s| selects(s, pod)));
            let [expected, healthy, desired] = counts(&budget, &pods);
            let current = budget.status.as_ref();
            let allowed = (healthy - desired).max(0);
            let is_current = current.is_some_and(|status| {
                [
                    status.expected_pods,
                    status.current_healthy,
                    status.desired_healthy,
                    status.disruptions_allowed,
                ] == [expected, healthy, desired, allowed].map(Some)
                    && status.observed_generation == budget.metadata.generation
            });
            if is_current {
                continue;
            }
            let status = json!({
                "expectedPods": expected,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "disruptionsAllowed": allowed,
                "observedGeneration": budget.metadata.generation,
                "disruptedPods": null,
            });
            self.write_status(&*budget, status).await?;
        }
        Ok(())
    }
}

/// How many pods exist, are healthy, and must stay.
fn counts(budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> [i32; 3] {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let expected = number(pods.len());
    let healthy = number(pods.iter().filter(|pod| is_ready(pod)).count());
    let spec = budget.spec.as_ref();
    let of = |value: &IntOrString| match value {
        IntOrString::Int(count) => *count,
        IntOrString::String(text) => {
            let percent: i32 = text.trim_end_matches('%').parse().unwrap_or(0);
            expected.saturating_mul(percent).saturating_add(99) / 100
        }
    };
    let least = spec.and_then(|spec| spec.min_available.as_ref()).map(of);
    let most = spec.and_then(|spec| spec.max_unavailable.as_ref()).map(of);
    let desired = least.or(most.map(|most| expected - most)).unwrap_or(0);
    [expected, healthy, desired.max(0)]
}

fn selects(selector: &LabelSelector, pod: &Pod) -> bool {
    let labels = pod.labels();
    let mut by_value = selector.match_labels.iter().flatten();
    let mut by_rule = selector.match_expressions.iter().flatten();
    by_value.all(|(key, value)| labels.get(key) == Some(value))
        && by_rule.all(|rule| {
            let found = labels.get(&rule.key);
            let among = || {
                let mut values = rule.values.iter().flatten();
                values.any(|value| Some(value) == found)
            };
            match rule.operator.as_str() {
                "In" => among(),
                "NotIn" => !among(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}
