//! What `kubectl get` and `kubectl scale` rely on: tables made by the server, and the scale of a workload.

use anyhow::{Context, Result};
use integration::in_namespace;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The names of columns that are always shown.
fn columns(table: &Value) -> String {
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let shown = columns.filter(|column| column["priority"] == 0);
    let names: Vec<_> = shown.filter_map(|column| column["name"].as_str()).collect();
    names.join(", ")
}

#[test]
fn pods_come_as_a_table_when_that_is_asked_for() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let path = test.path("/api/v1", "pods");
        let table = test.raw().get_as(&path, TABLE).await?.body;
        assert_eq!(table["kind"], "Table");
        assert_eq!(columns(&table), "Name, Ready, Status, Restarts, Age");
        let row = &table["rows"][0];
        assert_eq!(row["cells"][0], "a");
        assert_eq!(row["cells"][1], "0/1");
        assert_eq!(row["cells"][2], "Pending");
        assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(row["object"]["metadata"]["name"], "a");
        let one = test.raw().get_as(&format!("{path}/a"), TABLE).await?.body;
        assert_eq!(one["rows"][0]["cells"][0], "a");
        let plain = test.raw().get(&path).await?.body;
        assert_eq!(plain["kind"], "PodList");
        Ok(())
    })
}

#[test]
fn every_kind_that_people_list_has_the_columns_they_know() -> Result<()> {
    let budgets = "Name, Min Available, Max Unavailable, Allowed Disruptions, Age";
    let classes = "Name, Value, Global-Default, Age, PreemptionPolicy";
    in_namespace(async |test| {
        for (resource, expected) in [
            ("api/v1/nodes", "Name, Status, Roles, Age, Version"),
            ("api/v1/namespaces", "Name, Status, Age"),
            ("api/v1/events", "Last Seen, Type, Reason, Object, Message"),
            (
                "apis/apps/v1/deployments",
                "Name, Ready, Up-to-date, Available, Age",
            ),
            (
                "apis/apps/v1/replicasets",
                "Name, Desired, Current, Ready, Age",
            ),
            ("apis/apps/v1/statefulsets", "Name, Ready, Age"),
            (
                "apis/batch/v1/jobs",
                "Name, Status, Completions, Duration, Age",
            ),
            ("api/v1/configmaps", "Name, Data, Age"),
            ("api/v1/secrets", "Name, Type, Data, Age"),
            ("apis/scheduling.k8s.io/v1/priorityclasses", classes),
            ("apis/policy/v1/poddisruptionbudgets", budgets),
        ] {
            let path = format!("/{resource}");
            let table = test.raw().get_as(&path, TABLE).await?.body;
            assert_eq!(columns(&table), expected, "{path}");
        }
        Ok(())
    })
}

#[test]
fn the_scale_of_a_deployment_is_its_number_of_replicas() -> Result<()> {
    in_namespace(async |test| {
        let deployments = test.objects::<Deployment>();
        let deployment = json!({
            "metadata": {"name": "d"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "d"}},
                "template": {
                    "metadata": {"labels": {"app": "d"}},
                    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
                },
            },
        });
        deployments.create_json(deployment).await?;
        let params = PatchParams::default();
        let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
        let scale = deployments.api.patch_scale("d", &params, &patch).await?;
        assert_eq!(scale.spec.context("no spec")?.replicas, Some(2));
        assert_eq!(deployments.get("d").await?.spec.replicas, Some(2));
        let read = deployments.api.get_scale("d").await?;
        let selector = read.status.context("no status")?.selector;
        assert_eq!(selector.as_deref(), Some("app=d"));
        deployments.delete("d").await?;
        Ok(())
    })
}

#[test]
fn webhooks_of_a_configuration_are_merged_by_name() -> Result<()> {
    in_namespace(async |test| {
        let name = test.unique("hooks");
        let hook = |name: &str| {
            json!({
                "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "failurePolicy": "Ignore",
                "clientConfig": {"url": "https://127.0.0.1:1/none"},
                "objectSelector": {"matchLabels": {"nobody": "has-this"}},
            })
        };
        let hooks = [hook("a.example.com"), hook("b.example.com")];
        let configurations = test.cluster::<MutatingWebhookConfiguration>();
        let made = json!({"metadata": {"name": name}, "webhooks": hooks});
        configurations.create_json(made).await?;
        let patch = json!({"webhooks": [{"name": "b.example.com", "timeoutSeconds": 3}]});
        let patched = configurations.strategic(&name, patch).await;
        configurations.delete(&name).await?;
        let webhooks = patched?.webhooks.context("no webhooks")?;
        assert_eq!(webhooks.len(), 2);
        assert_eq!(webhooks[1].timeout_seconds, Some(3));
        let url = webhooks[1].client_config.url.as_deref();
        assert_eq!(url, Some("https://127.0.0.1:1/none"));
        Ok(())
    })
}
