//! Webhook and agent refuse pods between manifest and running container, and the user can read why.

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::support::{pods, start, until};

fn pod(name: &str, more: &Value) -> Pod {
    let mut spec = json!({"containers": [{
        "name": "app", "image": "example/app:1",
        "resources": {"limits": {"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "1024"}},
    }]});
    let more = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(more);
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_and_the_agent_refuse_what_cannot_be_right() {
    let sandbox = start().await;
    let api = pods(&sandbox, "default");

    // The real webhook, called by HTTPS.
    let odd = json!({"containers": [{
        "name": "app", "image": "example/app:1",
        "resources": {"limits": {"tencent.com/vcuda-core": "150"}},
    }]});
    let refused = api.create(&PostParams::default(), &pod("odd", &odd)).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("denied the request"), "{message}");
    assert!(message.contains("tencent.com/vcuda-core"), "{message}");

    // This pod bypasses the scheduler, so it has no record: the real agent does not let it start.
    let forged = pod("forged", &json!({"nodeName": "t4-1"}));
    api.create(&PostParams::default(), &forged).await.unwrap();
    let waiting = until("the agent's refusal", async || {
        let pod = api.get("forged").await.map_err(|error| error.to_string())?;
        let statuses = pod.status.and_then(|status| status.container_statuses);
        let state = statuses.and_then(|list| list.into_iter().next()?.state?.waiting);
        let state = state.ok_or("no state yet")?;
        match state.reason.as_deref() {
            Some("CreateContainerConfigError") => Ok(state.message.unwrap_or_default()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(waiting.contains("FailedPrecondition"), "{waiting}");
    assert!(waiting.contains("gpushare: "), "{waiting}");
    sandbox.stop().await.unwrap();
}
