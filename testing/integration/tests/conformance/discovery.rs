//! Discovery: what the server says about itself.

use anyhow::{Context, Result};
use integration::in_namespace;
use integration::verdict::{CREATED, DONE, INVALID};

/// Kinds that are not in a namespace.
const CLUSTER_WIDE: [&str; 3] = ["Namespace", "Node", "PriorityClass"];

const VERBS: [&str; 7] = [
    "create", "delete", "get", "list", "patch", "update", "watch",
];

#[test]
fn the_server_is_healthy_and_tells_its_version() -> Result<()> {
    in_namespace(async |test| {
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = test.raw().get(path).await?;
            answer.must_be(DONE);
            assert_eq!(answer.body, "ok", "{path}");
        }
        let version = test.client().apiserver_version().await?;
        assert_eq!(version.major, "1");
        assert!(version.minor.parse::<u32>()? >= 36);
        Ok(())
    })
}

#[test]
fn the_kinds_we_use_are_offered_with_their_verbs() -> Result<()> {
    in_namespace(async |test| {
        for (group_version, plural, kind) in [
            ("v1", "pods", "Pod"),
            ("v1", "pods/status", "Pod"),
            ("v1", "pods/binding", "Binding"),
            ("v1", "pods/eviction", "Eviction"),
            ("v1", "nodes", "Node"),
            ("v1", "nodes/status", "Node"),
            ("v1", "namespaces", "Namespace"),
            ("v1", "configmaps", "ConfigMap"),
            ("v1", "serviceaccounts/token", "TokenRequest"),
            ("apps/v1", "deployments", "Deployment"),
            ("apps/v1", "statefulsets", "StatefulSet"),
            ("apps/v1", "daemonsets", "DaemonSet"),
            ("batch/v1", "jobs", "Job"),
            ("coordination.k8s.io/v1", "leases", "Lease"),
            ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
            ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass"),
            ("events.k8s.io/v1", "events", "Event"),
        ] {
            let root = if group_version == "v1" { "api" } else { "apis" };
            let list = test.raw().get(&format!("/{root}/{group_version}")).await?;
            let resources = list.body["resources"].as_array().context("no resources")?;
            let found = resources.iter().find(|resource| resource["name"] == plural);
            let found = found.with_context(|| format!("{group_version} has no {plural}"))?;
            assert_eq!(found["kind"], kind);
            assert_eq!(found["namespaced"], !CLUSTER_WIDE.contains(&kind));
            if !plural.contains('/') {
                let verbs = found["verbs"].as_array().context("no verbs")?;
                for verb in VERBS {
                    let offered = verbs.iter().any(|offered| offered == verb);
                    assert!(offered, "{plural} lacks {verb}");
                }
            }
        }
        let groups = test.client().list_api_groups().await?.groups;
        let mut names = groups.iter().map(|group| group.name.as_str());
        assert!(names.any(|name| name == "coordination.k8s.io"));
        Ok(())
    })
}

#[test]
fn an_account_is_given_a_token_that_expires() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "serviceaccounts/default/token");
        let body = r#"{"spec": {"expirationSeconds": 3600}}"#;
        let answer = test.raw().post(&path, body).await?;
        answer.must_be(CREATED);
        let status = &answer.body["status"];
        let token = status["token"].as_str().context("no token")?;
        assert!(!token.is_empty());
        assert!(status["expirationTimestamp"].is_string());
        let body = r#"{"spec": {"expirationSeconds": 5}}"#;
        let short = test.raw().post(&path, body).await?;
        short.must_be(INVALID);
        Ok(())
    })
}
