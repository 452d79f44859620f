//! Budgets, and what they report.

use gpushare_kube::gpu_budget::{GpuBudget, GpuBudgetStatus};
use gpushare_ledger::Seconds;
use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{World, until};

/// By how many seconds running pods are charged.
const CELL: Seconds = 300;

impl World {
    pub(crate) fn budgets(&self) -> Api<GpuBudget> {
        Api::all(self.client.clone())
    }

    /// A budget of so many seconds a day that pays for no namespace, with further fields of the spec.
    pub(crate) async fn budget(&self, name: &str, seconds: i64, more: Value) -> GpuBudget {
        let mut spec = json!({"amount": seconds, "period": {"kind": "Day"}});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let budget = json!({
            "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget",
            "metadata": {"name": name}, "spec": spec,
        });
        self.budgets().add(budget).await
    }

    /// A budget for the namespace `a`, with further fields of the spec.
    pub(crate) async fn paying(&self, name: &str, seconds: i64, mut more: Value) -> GpuBudget {
        more["namespaces"] = json!({"names": ["a"]});
        self.budget(name, seconds, more).await
    }

    /// The usual budget for the namespace `a`.
    pub(crate) async fn budget_of_a(&self, seconds: i64) -> GpuBudget {
        self.paying("a", seconds, json!({})).await
    }

    pub(crate) async fn status(&self, budget: &str) -> GpuBudgetStatus {
        let budget = self.budgets().get(budget).await.unwrap();
        budget.status.unwrap_or_default()
    }

    /// Waits for the status of a budget.
    pub(crate) async fn until_status(
        &self,
        budget: &str,
        what: &str,
        holds: impl Fn(&GpuBudgetStatus) -> bool,
    ) -> GpuBudgetStatus {
        until(&format!("{budget}: {what}"), async || {
            let status = self.status(budget).await;
            if holds(&status) {
                Ok(status)
            } else {
                Err(status)
            }
        })
        .await
    }

    /// Waits until a budget shows so many seconds as used and as held.
    pub(crate) async fn until_used(&self, budget: &str, used: i64, held: i64) {
        let what = format!("{used} are used and {held} held");
        self.until_status(budget, &what, |status| {
            status.used_seconds == Some(used) && status.held_seconds == Some(held)
        })
        .await;
    }

    /// Moves the clock, and waits until the budget of `a` shows so many seconds as used and as held.
    pub(crate) async fn uses_at(&self, second: Seconds, used: i64, held: i64) {
        self.at(second);
        self.until_used("a", used, held).await;
    }

    /// Moves the clock, and waits until a whole card is charged from the beginning in full cells, and the rest is held.
    pub(crate) async fn charges_until(&self, second: Seconds) {
        let held = second % CELL;
        self.uses_at(second, second - held, held).await;
    }

    pub(crate) async fn until_remaining(&self, budget: &str, seconds: i64) -> GpuBudgetStatus {
        let what = format!("{seconds} remain");
        self.until_status(budget, &what, |status| {
            status.remaining_seconds == Some(seconds)
        })
        .await
    }

    pub(crate) async fn until_exhausted(&self, budget: &str) -> GpuBudgetStatus {
        self.until_status(budget, "it is exhausted", |status| status.exhausted)
            .await
    }

    pub(crate) async fn until_restored(&self, budget: &str) -> GpuBudgetStatus {
        self.until_status(budget, "it is not exhausted", |status| !status.exhausted)
            .await
    }

    /// Waits until a budget is charged, which is the only reason for `Ready`.
    pub(crate) async fn until_charged(&self, budget: &str) -> GpuBudgetStatus {
        self.until_ready(budget, "True", "Charged").await
    }

    pub(crate) async fn until_not_ready(&self, budget: &str, reason: &str) -> GpuBudgetStatus {
        self.until_ready(budget, "False", reason).await
    }

    async fn until_ready(&self, budget: &str, ready: &str, reason: &str) -> GpuBudgetStatus {
        let what = format!("Ready is {ready}: {reason}");
        self.until_status(budget, &what, |status| {
            let mut conditions = status.conditions.iter();
            let found = conditions.find(|condition| condition.type_ == "Ready");
            found.is_some_and(|found| found.status == ready && found.reason == reason)
        })
        .await
    }

    /// Reasons of Events on a budget.
    pub(crate) async fn events(&self, budget: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let events = api.list(&ListParams::default()).await.unwrap();
        let about = |event: &Event| {
            let object = &event.involved_object;
            object.kind.as_deref() == Some("GpuBudget") && object.name.as_deref() == Some(budget)
        };
        let about = events.items.into_iter().filter(about);
        about.filter_map(|event| event.reason).collect()
    }
}
