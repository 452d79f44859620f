//! The webhook down, slow, or with the wrong certificate: ordinary pods notice nothing, GPU pods get a message that
//! names it, and all is well again afterwards.

use e2e::hook::{Hook, pod};
use e2e::wait;
use serde_json::json;

/// Ordinary pods go on; GPU pods are refused with a message that says who could not be asked, and why.
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
    wait::until("GPU pods are admitted", || {
        let said = hook.dry_run(namespace, &asking);
        if said.ok { Ok(()) } else { Err(said.err) }
    });
}

#[test]
fn only_gpu_pods_wait_while_the_webhook_is_away_slow_or_not_believed() {
    let hook = Hook::cluster();
    let namespace = hook.namespace();
    // Not there yet: applying everything at once locks nothing out, not even the webhook's own pods.
    only_gpu_pods_wait(&hook, &namespace, "failed calling webhook");
    let mut own = pod("own", &json!({"aliyun.com/gpu-mem": 1}));
    own["spec"]["serviceAccountName"] = json!("gpushare-webhook");
    hook.dry_run("gpushare-system", &own).object();

    let mut webhook = hook.replica(0, &[]);
    hook.wait_ready(0);
    until_gpu_pods_are_admitted(&hook, &namespace);

    webhook.freeze();
    only_gpu_pods_wait(&hook, &namespace, "context deadline exceeded");
    webhook.thaw();
    until_gpu_pods_are_admitted(&hook, &namespace);

    assert!(webhook.terminate(), "it ends with success");
    only_gpu_pods_wait(&hook, &namespace, "connection refused");

    // Its certificate is for another name.
    let mut other = hook.replica(0, &["--server-name", "elsewhere.example"]);
    hook.wait_ready(0);
    only_gpu_pods_wait(
        &hook,
        &namespace,
        "certificate is valid for elsewhere.example",
    );
    other.kill();

    // The next one finds the same Secret, and puts things right.
    let mut right = hook.replica(0, &[]);
    hook.wait_ready(0);
    until_gpu_pods_are_admitted(&hook, &namespace);
    right.assert_alive();
}
