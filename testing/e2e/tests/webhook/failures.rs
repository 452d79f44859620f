//! The webhook is down, slow, or has the wrong certificate: ordinary pods are not affected, GPU pods get a message that
//! names the webhook, the doctor says what to do, and everything works again afterwards.

use e2e::hook::{Hook, pod};
use e2e::paper::PaperNode;
use e2e::wait;
use serde_json::{Value, json};

/// Ordinary pods are accepted. GPU pods are refused with a message that names the webhook that could not be called, and
/// why.
fn only_gpu_pods_wait(hook: &Hook, namespace: &str, why: &str) {
    let plain = pod("plain", &json!({"cpu": "1"}));
    hook.dry_run(namespace, &plain).object();
    let asking = pod("asking", &json!({"aliyun.com/gpu-mem": 1}));
    let said = hook.dry_run(namespace, &asking);
    let message = said.refusal();
    assert!(message.contains("pods.gpushare.io"), "{message}");
    assert!(message.contains(why), "{message}");
}

fn until_gpu_pods_are_admitted(hook: &Hook, namespace: &str) {
    let asking = pod("asking", &json!({"gpushare.io/gpu-mem": 1}));
    let admitted = || hook.dry_run(namespace, &asking).result();
    wait::until("GPU pods are admitted", admitted);
}

/// The findings of `kubectl gpushare doctor`. Checks that its exit status agrees with them.
fn doctor(hook: &Hook) -> Vec<Value> {
    let (code, report) = hook.doctor();
    assert_eq!(report["ok"], code == Some(0), "{report:#}");
    report["checks"].as_array().unwrap().clone()
}

fn failed(checks: &[Value]) -> Vec<&Value> {
    let failed = checks.iter().filter(|check| check["status"] == "fail");
    failed.collect()
}

/// The doctor reports the webhook's failure, in the API server's words and with a remedy.
fn doctor_blames(hook: &Hook, why: &str, remedy: &str) {
    let checks = doctor(hook);
    let failed = failed(&checks);
    let named = failed
        .iter()
        .find(|check| check["name"] == "webhook's answer");
    assert!(named.is_some(), "{checks:#?}");
    let check = named.unwrap();
    let text = |field: &str| check[field].as_str().unwrap().to_owned();
    assert!(text("message").contains(why), "{check:#}");
    assert!(text("fix").contains(remedy), "{check:#}");
}

#[test]
fn only_gpu_pods_wait_while_the_webhook_is_away_slow_or_not_believed() {
    let hook = Hook::cluster();
    let namespace = hook.namespace();
    PaperNode::new("paper", &[16_384, 24_576]).set_on(&hook.rig);
    // The webhook does not run yet: applying everything at once locks nothing out, not even the webhook's own pods.
    only_gpu_pods_wait(&hook, &namespace, "failed calling webhook");
    let mut own = pod("own", &json!({"aliyun.com/gpu-mem": 1}));
    own["spec"]["serviceAccountName"] = json!("gpushare-webhook");
    hook.dry_run("gpushare-system", &own).object();
    doctor_blames(
        &hook,
        "failed calling webhook",
        "kubectl -n gpushare-system",
    );

    let mut webhook = hook.replica(0, &[]);
    hook.wait_ready(0);
    until_gpu_pods_are_admitted(&hook, &namespace);
    let checks = doctor(&hook);
    assert_eq!(failed(&checks), [&json!(null); 0], "{checks:#?}");

    webhook.freeze();
    only_gpu_pods_wait(&hook, &namespace, "context deadline exceeded");
    webhook.thaw();
    until_gpu_pods_are_admitted(&hook, &namespace);

    assert!(webhook.terminate(), "it ends with success");
    only_gpu_pods_wait(&hook, &namespace, "connection refused");
    doctor_blames(&hook, "connection refused", "must be Ready");

    // The certificate is for another name.
    let mut other = hook.replica(0, &["--server-name", "elsewhere.example"]);
    hook.wait_ready(0);
    only_gpu_pods_wait(
        &hook,
        &namespace,
        "certificate is valid for elsewhere.example",
    );
    doctor_blames(&hook, "certificate is valid for", "check --server-name");
    other.kill();

    // The next replica finds the same Secret, and repairs it.
    let mut right = hook.replica(0, &[]);
    hook.wait_ready(0);
    until_gpu_pods_are_admitted(&hook, &namespace);
    right.assert_alive();
}
