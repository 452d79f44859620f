//! Eviction: a deletion that a disruption budget can refuse.

use anyhow::{Context, Result};
use integration::objects::{PodBuilder, pod};
use integration::verdict::{CREATED, NOT_FOUND};
use integration::{Answer, Scope, in_namespace, until};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

async fn evict(test: &Scope, name: &str) -> Result<Answer> {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": test.namespace()},
    });
    let path = test.path("/api/v1", &format!("pods/{name}/eviction"));
    test.raw().post(&path, eviction.to_string()).await
}

fn guarded(name: &str) -> PodBuilder {
    pod(name).label("app", "guarded")
}

async fn healthy_pod(test: &Scope, name: &str) -> Result<()> {
    test.create_pod(guarded(name)).await?;
    let healthy = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    test.pods().strategic_status(name, healthy).await?;
    Ok(())
}

/// One healthy pod and a budget over it, with the status that its controller would give it.
async fn healthy_pod_in_budget(test: &Scope, name: &str, min_available: i32) -> Result<()> {
    healthy_pod(test, name).await?;
    let budgets = test.objects::<PodDisruptionBudget>();
    let budget = json!({
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": "guarded"}}},
    });
    budgets.create_json(budget).await?;
    let status = json!({"status": {
        "observedGeneration": 1,
        "currentHealthy": 1,
        "desiredHealthy": min_available,
        "disruptionsAllowed": 1 - min_available,
        "expectedPods": 1,
    }});
    budgets.merge_status("guard", status).await?;
    Ok(())
}

#[test]
fn a_pod_without_a_budget_is_evicted_and_says_why_it_goes() -> Result<()> {
    in_namespace(async |test| {
        healthy_pod(test, "a").await?;
        test.bind("a", "n1").await?;
        evict(test, "a").await?.must_be(CREATED);
        let dying = test.pods().get("a").await?;
        assert!(dying.metadata.deletion_timestamp.is_some());
        let conditions = dying.status.and_then(|status| status.conditions);
        let mut conditions = conditions.context("no conditions")?.into_iter();
        let condition = conditions.find(|condition| condition.type_ == "DisruptionTarget");
        let reason = condition.context("no such condition")?.reason;
        assert_eq!(reason.as_deref(), Some("EvictionByEvictionAPI"));
        Ok(())
    })
}

#[test]
fn a_budget_without_room_refuses_the_eviction() -> Result<()> {
    in_namespace(async |test| {
        healthy_pod_in_budget(test, "a", 1).await?;
        let answer = evict(test, "a").await?;
        answer.must_be((429, "TooManyRequests"));
        assert_eq!(answer.detail("causes/0/reason"), "DisruptionBudget");
        let kept = test.pods().get("a").await?;
        assert!(kept.metadata.deletion_timestamp.is_none());
        Ok(())
    })
}

#[test]
fn a_budget_with_room_allows_it() -> Result<()> {
    in_namespace(async |test| {
        healthy_pod_in_budget(test, "a", 0).await?;
        // A real controller may not have counted yet when it is first asked.
        until("the eviction is allowed", async || {
            Ok(evict(test, "a").await?.verdict() == CREATED)
        })
        .await?;
        assert!(test.pods().get_opt("a").await?.is_none());
        Ok(())
    })
}

#[test]
fn a_pod_that_waits_is_evicted_whatever_the_budget_says() -> Result<()> {
    in_namespace(async |test| {
        healthy_pod_in_budget(test, "guarded", 1).await?;
        test.create_pod(guarded("waiting")).await?;
        evict(test, "waiting").await?.must_be(CREATED);
        assert!(test.pods().get_opt("waiting").await?.is_none());
        evict(test, "gone").await?.must_be(NOT_FOUND);
        Ok(())
    })
}
