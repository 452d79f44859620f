//! Pods, as the webhook, the scheduler, the kubelet and their tenants write them.

use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::{CardId, Placement, Record, names};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_ledger::Seconds;
use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{NODE, World, time, until};

impl World {
    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A pod of `a`.
    pub(crate) async fn pod(&self, name: &str) -> Pod {
        self.pods("a").get(name).await.unwrap()
    }

    /// A pod in `a` that requests so much of a card, in the form that the webhook gives it where a budget pays.
    pub(crate) async fn create(&self, name: &str, gib: u64) -> Pod {
        self.create_with(name, gib, &[names::METERING]).await
    }

    pub(crate) async fn create_with(&self, name: &str, gib: u64, finalizers: &[&str]) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "finalizers": finalizers},
            "spec": {"containers": [{"name": "main", "image": "none",
                "resources": {"limits": {names::ALIYUN_GPU_MEM: gib.to_string()}}}]},
        });
        self.pods("a").add(pod).await
    }

    /// Binds it to the card of a node and lets it run from so many seconds after the beginning.
    pub(crate) async fn run_on(&self, pod: &Pod, node: &str, second: Seconds) {
        let slim: slim::Pod = serde_json::from_value(serde_json::to_value(pod).unwrap()).unwrap();
        let facts = PodFacts::new(&slim, &gpu::dialects(AliyunUnit::GiB));
        let ask = facts.ask.unwrap().unwrap();
        let placement = Placement::on_one_card(&ask, &CardId::new(format!("GPU-{node}")));
        let record = Record::new(facts.uid, node.into(), &gpu::classes(), &placement);
        let name = pod.name_any();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name}, "target": {"kind": "Node", "name": node},
        });
        let (pods, params) = (self.pods("a"), PostParams::default());
        let _bound: Value = pods
            .create_subresource("binding", &name, &params, &binding)
            .await
            .unwrap();
        let started = time(self.base + second);
        pods.merge_status(&name, json!({
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": started}],
            "containerStatuses": [status(json!({"running": {"startedAt": started}}))],
        }))
        .await;
        // Written last: the server has recorded another time for the bind, and nothing is held without this annotation.
        let annotations = json!({names::ALLOCATION: record.encode()});
        pods.annotate(&name, annotations).await;
    }

    /// A pod in `a` that runs on the usual node.
    pub(crate) async fn running(&self, name: &str, gib: u64, second: Seconds) -> Pod {
        self.running_with(name, gib, &[names::METERING], second)
            .await
    }

    pub(crate) async fn running_with(
        &self,
        name: &str,
        gib: u64,
        finalizers: &[&str],
        second: Seconds,
    ) -> Pod {
        let pod = self.create_with(name, gib, finalizers).await;
        self.run_on(&pod, NODE, second).await;
        pod
    }

    /// Its container has finished.
    pub(crate) async fn finish(&self, name: &str, second: Seconds) {
        let at = time(self.base + second);
        let ended = json!({"terminated": {"exitCode": 0, "startedAt": at, "finishedAt": at}});
        let ended = json!({"phase": "Succeeded", "containerStatuses": [status(ended)]});
        self.pods("a").merge_status(name, ended).await;
    }

    /// Deletes a pod at once, as after its containers have ended.
    pub(crate) async fn delete(&self, name: &str) {
        self.pods("a").delete_now(name).await;
    }

    /// A tenant deletes a pod by force and takes its finalizers off.
    pub(crate) async fn vanish(&self, name: &str) {
        self.delete(name).await;
        let by_force = json!({"metadata": {"finalizers": null}});
        self.pods("a").merge(name, by_force).await;
        self.until_gone(name).await;
    }

    pub(crate) async fn until_released(&self, name: &str) {
        until(&format!("{name} is released"), async || {
            let pod = self.pods("a").get_opt(name).await.unwrap();
            pod.is_none_or(|pod| pod.finalizers().is_empty())
        })
        .await;
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        until(&format!("{name} is gone"), async || {
            self.pods("a").get_opt(name).await.unwrap().is_none()
        })
        .await;
    }

    pub(crate) async fn is_ending(&self, name: &str) -> bool {
        let pod = self.pods("a").get_opt(name).await.unwrap();
        pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    }

    pub(crate) async fn until_evicted(&self, name: &str) {
        until(&format!("{name} is evicted"), async || {
            self.is_ending(name).await
        })
        .await;
    }

    pub(crate) async fn annotation(&self, pod: &str, name: &str) -> Option<String> {
        self.pod(pod).await.annotations().get(name).cloned()
    }

    pub(crate) async fn until_marked(&self, pod: &str, name: &str, marked: bool) {
        until(&format!("{name} stands on {pod}: {marked}"), async || {
            self.annotation(pod, name).await.is_some() == marked
        })
        .await;
    }
}

fn status(state: Value) -> Value {
    let mut status = json!({
        "name": "main", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
    });
    status["state"] = state;
    status
}
