//! Discovery: what the server says about itself.

use anyhow::{Context, Result};
use integration::in_namespace;
use serde_json::Value;

#[tokio::test]
async fn the_server_is_healthy_and_tells_its_version() -> Result<()> {
    in_namespace(async |test| {
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = test.raw().get(path).await?;
            assert_eq!(
                (answer.code, answer.body.as_str()),
                (200, Some("ok")),
                "{path}"
            );
        }
        let version = test.client().apiserver_version().await?;
        assert_eq!(version.major, "1");
        assert!(version.minor.parse::<u32>()? >= 36);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_kinds_we_use_are_offered_with_their_verbs() -> Result<()> {
    in_namespace(async |test| {
        for (group_version, plural, kind, namespaced) in [
            ("v1", "pods", "Pod", true),
            ("v1", "pods/status", "Pod", true),
            ("v1", "pods/binding", "Binding", true),
            ("v1", "pods/eviction", "Eviction", true),
            ("v1", "nodes", "Node", false),
            ("v1", "nodes/status", "Node", false),
            ("v1", "namespaces", "Namespace", false),
            ("v1", "configmaps", "ConfigMap", true),
            ("v1", "serviceaccounts/token", "TokenRequest", true),
            ("apps/v1", "deployments", "Deployment", true),
            ("apps/v1", "statefulsets", "StatefulSet", true),
            ("apps/v1", "daemonsets", "DaemonSet", true),
            ("batch/v1", "jobs", "Job", true),
            ("coordination.k8s.io/v1", "leases", "Lease", true),
            (
                "policy/v1",
                "poddisruptionbudgets",
                "PodDisruptionBudget",
                true,
            ),
            (
                "scheduling.k8s.io/v1",
                "priorityclasses",
                "PriorityClass",
                false,
            ),
            ("events.k8s.io/v1", "events", "Event", true),
        ] {
            let root = if group_version == "v1" { "api" } else { "apis" };
            let list = test.raw().get(&format!("/{root}/{group_version}")).await?;
            let resources = list.body["resources"].as_array().context("no resources")?;
            let found = resources.iter().find(|resource| resource["name"] == plural);
            let found = found.with_context(|| format!("{group_version} has no {plural}"))?;
            assert_eq!(found["kind"], kind);
            assert_eq!(found["namespaced"], namespaced);
            let verbs: Vec<_> = found["verbs"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            if !plural.contains('/') {
                for verb in [
                    "create", "delete", "get", "list", "patch", "update", "watch",
                ] {
                    assert!(verbs.contains(&verb), "{plural} lacks {verb}");
                }
            }
        }
        let groups = test.client().list_api_groups().await?;
        assert!(
            groups
                .groups
                .iter()
                .any(|group| group.name == "coordination.k8s.io")
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_account_is_given_a_token_that_expires() -> Result<()> {
    in_namespace(async |test| {
        let path = format!("{}/default/token", test.path("/api/v1", "serviceaccounts"));
        let answer = test
            .raw()
            .post(&path, r#"{"spec": {"expirationSeconds": 3600}}"#)
            .await?;
        assert_eq!(answer.code, 201, "{}", answer.body);
        assert!(
            answer.body["status"]["token"]
                .as_str()
                .is_some_and(|token| !token.is_empty())
        );
        assert!(answer.body["status"]["expirationTimestamp"].is_string());
        let short = test
            .raw()
            .post(&path, r#"{"spec": {"expirationSeconds": 5}}"#)
            .await?;
        assert_eq!(short.verdict(), (422, "Invalid"));
        Ok(())
    })
    .await
}
