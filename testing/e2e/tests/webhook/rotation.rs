//! Certificates and CAs change several times while pods are constantly created through two replicas: not one request
//! fails.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use e2e::hook::{Hook, PORTS, pod};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// As short as a loaded machine can keep up with.
const LIFETIMES: [&str; 6] = [
    "--ca-validity",
    "45s",
    "--certificate-validity",
    "24s",
    "--ca-overlap",
    "5s",
];
const AUTHORITIES: usize = 3;
const PATIENCE: Duration = Duration::from_mins(6);

/// The CA that signed the replicas' certificate.
async fn signer(client: &Client) -> String {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "gpushare-system");
    let secret = secrets.get("gpushare-webhook-tls").await.unwrap();
    let content = &secret.data.unwrap()["pki.json"];
    let pki: Value = serde_json::from_slice(&content.0).unwrap();
    pki["serving"]["authority"].as_str().unwrap().to_owned()
}

#[test]
fn a_change_of_certificates_under_load_drops_no_request() {
    let hook = Hook::cluster();
    let namespace = hook.namespace();
    let mut replicas = [hook.replica(0, &LIFETIMES), hook.replica(1, &LIFETIMES)];
    hook.wait_ready(0);
    hook.wait_ready(1);
    hook.endpoint(1, PORTS[1].0, true);
    let (admitted, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let asking: Pod = serde_json::from_value(pod("p", &json!({"gpushare.io/gpu-mem": 1}))).unwrap();
    let (seen, failures) = hook.rig.run(|| async {
        let client = hook.client().await;
        let create = async || {
            let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let mut failures = Vec::new();
            while !enough.load(Ordering::Relaxed) {
                match pods.create(&params, &asking).await {
                    Ok(_) => {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => failures.push(error.to_string()),
                }
                sleep(Duration::from_millis(20)).await;
            }
            failures
        };
        let look = async {
            let deadline = Instant::now() + PATIENCE;
            let mut seen = BTreeSet::new();
            while seen.len() < AUTHORITIES && Instant::now() < deadline {
                seen.insert(signer(&client).await);
                sleep(Duration::from_millis(200)).await;
            }
            enough.store(true, Ordering::Relaxed);
            seen
        };
        let (seen, one, two) = tokio::join!(look, create(), create());
        (seen, [one, two].concat())
    });
    assert_eq!(failures, [""; 0]);
    assert!(seen.len() >= AUTHORITIES, "only {seen:?} have signed");
    assert!(admitted.load(Ordering::Relaxed) > 100, "{admitted:?}");
    for replica in &mut replicas {
        replica.assert_alive();
    }
}
