//! Requests of the tests to an extender, as the scheduler and Prometheus send them.

use std::collections::BTreeMap;

use gpushare_extender::Extender;
use gpushare_testkit::{assert_contains, until};
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::cluster::{call, get};
use crate::kubernetes::{ExtenderBindingResult, ExtenderFilterResult};

pub(crate) trait Asked {
    fn extender(&self) -> &Extender;

    async fn filter(&self, pod: &impl Serialize, nodes: &[impl Serialize]) -> ExtenderFilterResult {
        let body = json!({"Pod": pod, "NodeNames": nodes});
        call(self.extender(), "filter", &body).await
    }

    /// The scheduler asks about the pod, and every node is refused.
    async fn refuses(&self, pod: &Pod, nodes: &[&str]) {
        let result = self.filter(pod, nodes).await;
        assert_eq!(result.node_names.as_deref(), Some(&[][..]), "{result:?}");
        assert_eq!(result.refused().len(), nodes.len(), "{result:?}");
    }

    async fn fits(&self, pod: &Pod, node: &str) -> bool {
        let result = self.filter(pod, &[node]).await;
        let fits = !result.refused().contains_key(node);
        let expected: &[&str] = if fits { &[node] } else { &[] };
        assert_eq!(result.node_names.unwrap(), expected);
        fits
    }

    /// Sends a bind; returns its error.
    async fn bind(&self, pod: &Pod, node: &str) -> String {
        let metadata = &pod.metadata;
        let body = json!({
            "PodName": metadata.name, "PodNamespace": metadata.namespace, "PodUID": metadata.uid,
            "Node": node,
        });
        let result: ExtenderBindingResult = call(self.extender(), "bind", &body).await;
        result.error
    }

    async fn bind_fails(&self, pod: &Pod, node: &str, because: &str) {
        assert_contains(&self.bind(pod, node).await, because);
    }

    async fn until_bound(&self, pod: &Pod, node: &str) {
        let bound = async || self.bind(pod, node).await.is_empty();
        until("the pod is bound", bound).await;
    }

    /// A bind to n1 that the scheduler waits for while the test goes on; it ends with the bind's error.
    fn begin_bind(&self, pod: &Pod) -> JoinHandle<String> {
        let (extender, pod) = (self.extender().clone(), pod.clone());
        tokio::spawn(async move { Asked::bind(&extender, &pod, "n1").await })
    }

    /// The value of a metric, if it is there.
    async fn metric(&self, name: &str) -> Option<u64> {
        let (_, metrics) = get(self.extender(), "/metrics").await;
        let name = format!("gpushare_extender_{name} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
        value.map(|value| value.parse().unwrap())
    }

    async fn until_metric(&self, name: &str, expected: u64) {
        let what = format!("{name} is {expected}");
        until(&what, async || self.metric(name).await == Some(expected)).await;
    }

    /// Bookings by state, as the metrics show them; states without any are left out.
    async fn bookings(&self) -> BTreeMap<String, u64> {
        let (_, metrics) = get(self.extender(), "/metrics").await;
        metrics
            .lines()
            .filter_map(|line| line.strip_prefix("gpushare_extender_bookings{state=\""))
            .filter_map(|line| line.split_once("\"} "))
            .map(|(state, count)| (state.to_owned(), count.parse().unwrap()))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    async fn until_bookings(&self, expected: &[(&str, u64)]) {
        let expected = expected
            .iter()
            .map(|(state, count)| ((*state).to_owned(), *count));
        let expected: BTreeMap<String, u64> = expected.collect();
        let what = format!("the bookings are {expected:?}");
        until(&what, async || self.bookings().await == expected).await;
    }

    async fn until_confirmed(&self, number: u64) {
        self.until_bookings(&[("confirmed", number)]).await;
    }

    async fn is_ready(&self) -> bool {
        get(self.extender(), "/readyz").await.0 == 200
    }

    async fn until_ready(&self) {
        until("the extender is ready", async || self.is_ready().await).await;
    }
}

impl Asked for Extender {
    fn extender(&self) -> &Extender {
        self
    }
}
