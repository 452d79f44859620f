//! Eviction: a deletion that a disruption budget can refuse.

use anyhow::{Context, Result};
use integration::objects::pod;
use integration::{Answer, DEADLINE, Scope, in_namespace, wait_for};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

async fn evict(test: &Scope, name: &str) -> Result<Answer> {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": test.namespace()},
    });
    let path = format!("{}/{name}/eviction", test.path("/api/v1", "pods"));
    test.raw().post(&path, eviction.to_string()).await
}

async fn healthy_pod(test: &Scope, name: &str) -> Result<()> {
    test.create_pod(&pod(name).label("app", "guarded").build())
        .await?;
    let healthy = Patch::Strategic(json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    }}));
    test.pods()
        .patch_status(name, &PatchParams::default(), &healthy)
        .await?;
    Ok(())
}

/// A budget over one healthy pod, with the status that its controller would give it.
async fn budget(test: &Scope, min_available: i32) -> Result<()> {
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": "guarded"}}},
    }))?;
    let budgets = test.objects::<PodDisruptionBudget>();
    budgets.create(&PostParams::default(), &budget).await?;
    let status = Patch::Merge(json!({"status": {
        "observedGeneration": 1,
        "currentHealthy": 1,
        "desiredHealthy": min_available,
        "disruptionsAllowed": 1 - min_available,
        "expectedPods": 1,
    }}));
    budgets
        .patch_status("guard", &PatchParams::default(), &status)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_pod_without_a_budget_is_evicted_and_says_why_it_goes() -> Result<()> {
    in_namespace(async |test| {
        healthy_pod(test, "a").await?;
        let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
        let path = format!("{}/a/binding", test.path("/api/v1", "pods"));
        assert_eq!(test.raw().post(&path, binding.to_string()).await?.code, 201);
        let answer = evict(test, "a").await?;
        assert_eq!(answer.code, 201, "{}", answer.body);
        let dying = test.pods().get("a").await?;
        assert!(dying.metadata.deletion_timestamp.is_some());
        let conditions = dying
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let condition = conditions.iter().find(|c| c.type_ == "DisruptionTarget");
        let reason = condition.context("no such condition")?.reason.as_deref();
        assert_eq!(reason, Some("EvictionByEvictionAPI"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_budget_without_room_refuses_the_eviction() -> Result<()> {
    in_namespace(async |test| {
        healthy_pod(test, "a").await?;
        budget(test, 1).await?;
        let answer = evict(test, "a").await?;
        assert_eq!(answer.verdict(), (429, "TooManyRequests"));
        assert_eq!(
            answer.body["details"]["causes"][0]["reason"],
            "DisruptionBudget"
        );
        let kept = test.pods().get("a").await?;
        assert!(kept.metadata.deletion_timestamp.is_none());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_budget_with_room_allows_it() -> Result<()> {
    in_namespace(async |test| {
        healthy_pod(test, "a").await?;
        budget(test, 0).await?;
        // A real controller may not have counted yet when it is first asked.
        wait_for("the eviction is allowed", DEADLINE, async || {
            let answer = evict(test, "a").await?;
            Ok((answer.code == 201).then_some(()))
        })
        .await?;
        assert!(test.pods().get_opt("a").await?.is_none());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_pod_that_waits_is_evicted_whatever_the_budget_says() -> Result<()> {
    in_namespace(async |test| {
        healthy_pod(test, "guarded").await?;
        test.create_pod(&pod("waiting").label("app", "guarded").build())
            .await?;
        budget(test, 1).await?;
        assert_eq!(evict(test, "waiting").await?.code, 201);
        assert!(test.pods().get_opt("waiting").await?.is_none());
        assert_eq!(evict(test, "gone").await?.verdict(), (404, "NotFound"));
        Ok(())
    })
    .await
}
