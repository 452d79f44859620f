//! Controllers create the pods of workloads, and delete them together with their workload.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::support::{act, pods, start, until};

const WORKLOADS: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, image: 'example/web:1', resources: {limits: {aliyun.com/gpu-mem: 1}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: team}
spec:
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      initContainers:
      - {name: prepare, image: 'example/prepare:1', resources: {limits: {aliyun.com/gpu-mem: 1}}}
      containers:
      - {name: app, image: 'example/once:1', command: [sleep, '20'], resources: {limits: {aliyun.com/gpu-mem: 2}}}
";

async fn live(api: &Api<Pod>, labels: &str) -> usize {
    let listed = api
        .list(&ListParams::default().labels(labels))
        .await
        .unwrap();
    let live = listed
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    live.count()
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_become_pods_and_take_them_along_when_they_go() {
    let sandbox = start().await;
    act(&sandbox, WORKLOADS, &["available: team/web"]).await;
    let api = pods(&sandbox, "team");
    let jobs: Api<Job> = Api::namespaced(sandbox.client(), "team");
    until("the job to complete", async || {
        let status = jobs
            .get("once")
            .await
            .map_err(|error| error.to_string())?
            .status;
        let status = status.unwrap_or_default();
        (status.succeeded == Some(2) && status.completion_time.is_some())
            .then_some(())
            .ok_or(format!("{status:?}"))
    })
    .await;

    let deployments: Api<Deployment> = Api::namespaced(sandbox.client(), "team");
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let params = PatchParams::default();
    deployments
        .patch_scale("web", &params, &patch)
        .await
        .unwrap();
    until("three pods", async || match live(&api, "app=web").await {
        3 => Ok(()),
        other => Err(format!("{other}")),
    })
    .await;
    deployments
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    until("no pods of the deployment", async || {
        let listed = api.list(&ListParams::default().labels("app=web")).await;
        match listed.map_err(|error| error.to_string())?.items.len() {
            0 => Ok(()),
            other => Err(format!("{other} left")),
        }
    })
    .await;

    let namespaces: Api<Namespace> = Api::all(sandbox.client());
    namespaces
        .delete("team", &DeleteParams::default())
        .await
        .unwrap();
    until("the namespace to go", async || {
        match namespaces.get_opt("team").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    sandbox.stop().await.unwrap();
}
