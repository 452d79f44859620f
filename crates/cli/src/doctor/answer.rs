//! Checks that the API server reaches the webhook and trusts its certificate. The only proof is a pod that must be sent
//! to the webhook. The pod is a dry run, so nothing is created.

use gpushare_core::names::GPU_MEM;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::check::{Check, fail, ok, unknown, warn};
use crate::connection::said;

const ANSWER: &str = "webhook's answer";
/// The webhook's name in `deploy/webhook.yaml`.
const WEBHOOK: &str = "pods.gpushare.io";
/// This namespace exists in every cluster, and the webhook's configuration does not exempt it.
const NAMESPACE: &str = "default";

pub(super) async fn look(client: &Client, system: &str) -> Check {
    let pod = json!({
        "metadata": {"generateName": "gpushare-doctor-"},
        "spec": {"containers": [{
            "name": "probe", "image": "gpushare.io/never-run",
            "resources": {"limits": {GPU_MEM: "1"}},
        }]},
    });
    let pod: Pod = match serde_json::from_value(pod) {
        Ok(pod) => pod,
        Err(error) => return unknown(ANSWER, "a pod", &error.to_string()),
    };
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    match pods.create(&dry, &pod).await {
        Ok(_) => ok(ANSWER, "the API server reaches it and believes it"),
        Err(error) => judged(&said(&error), system),
    }
}

fn judged(said: &str, system: &str) -> Check {
    if !said.contains(WEBHOOK) {
        let message = format!("not known, because a trial pod in {NAMESPACE} is refused: {said}");
        let fix = format!("ask as a user who may create pods in {NAMESPACE}");
        return warn(ANSWER, message, fix);
    }
    // If the webhook denies the pod, it has answered too.
    if !said.contains("failed calling webhook") {
        return ok(ANSWER, "the API server reaches it and believes it");
    }
    let message = format!("pods that ask for cards cannot be created: {said}");
    let fix = if said.contains("x509") || said.contains("certificate") {
        format!(
            "see in its log (kubectl -n {system} logs deployment/gpushare-webhook) why it has not written its caBundle; \
             check --server-name and deploy/webhook.yaml"
        )
    } else {
        format!(
            "kubectl -n {system} get pods,endpointslices: a pod of gpushare-webhook must be Ready, and API servers must \
             reach its port"
        )
    };
    fail(ANSWER, message, fix)
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    fn check(said: &str, expected: Status, remedy: &str) {
        let found = judged(said, "gpushare-system");
        assert_eq!(found.status, expected, "{found:?}");
        let fix = found.fix.unwrap_or_default();
        assert!(fix.contains(remedy), "{fix}");
    }

    #[test]
    fn what_the_api_server_says_tells_who_is_to_blame() {
        let calling = r#"Internal error occurred: failed calling webhook "pods.gpushare.io": failed to call webhook: Post "https://gpushare-webhook.gpushare-system.svc:443/mutate?timeout=2s": "#;
        let unknown = format!("{calling}x509: certificate signed by unknown authority");
        check(&unknown, Status::Fail, "caBundle");
        let refused = format!("{calling}dial tcp 10.0.0.1:443: connect: connection refused");
        check(&refused, Status::Fail, "must be Ready");
        let denied = r#"admission webhook "pods.gpushare.io" denied the request: too much"#;
        check(denied, Status::Ok, "");
        let rights =
            r#"pods is forbidden: User "eve" cannot create resource "pods" in API group """#;
        check(rights, Status::Warn, "may create pods in default");
    }
}
