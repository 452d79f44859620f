//! What an operator may configure: certificates from files, HAMi's dialect, budgets that make pods wait; and what the
//! operator can read afterwards.

use std::fs;

use e2e::hook::{Hook, pod};
use e2e::wait;
use gpushare_testkit::assert_contains;
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};

use crate::SHARED;

const SERVICE: &str = "gpushare-webhook.gpushare-system.svc";
const KINDS: [&str; 2] = [
    "mutatingwebhookconfiguration",
    "validatingwebhookconfiguration",
];

/// Changes both configurations as an operator would.
fn configure(hook: &Hook, change: impl Fn(&mut Value)) {
    for kind in KINDS {
        let get = ["get", kind, "gpushare", "--output=json"];
        let mut configuration = hook.kubectl(&get, None).object();
        change(&mut configuration);
        let said = hook.kubectl(&["replace", "--filename=-"], Some(&configuration));
        assert!(said.ok, "{}", said.err);
    }
}

fn until_admitted(hook: &Hook, namespace: &str, limits: &Value) -> Value {
    wait::until("the pod to be admitted", || {
        let said = hook.dry_run(namespace, &pod("p", limits));
        if said.ok {
            Ok(said.object())
        } else {
            Err(said.err)
        }
    })
}

#[test]
fn certificates_come_from_files_and_hamis_dialect_is_served_where_the_operator_says_so() {
    let hook = Hook::cluster();
    let namespace = hook.namespace();
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = (
        directory.path().join("tls.crt"),
        directory.path().join("tls.key"),
    );
    let mount = || {
        let issued = generate_simple_self_signed([SERVICE.to_owned()]).unwrap();
        fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
        fs::write(&cert, issued.cert.pem()).unwrap();
        configure(&hook, |configuration| {
            let bundle = base64(&issued.cert.pem());
            configuration["webhooks"][0]["clientConfig"]["caBundle"] = json!(bundle);
        });
    };
    mount();
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let mut webhook = hook.replica(0, &["--tls-cert", cert, "--tls-key", key, "--hami"]);
    hook.wait_ready(0);
    let ours = json!({"gpushare.io/gpu-mem": 5});
    until_admitted(&hook, &namespace, &ours);
    // The webhook loads renewed files.
    mount();
    until_admitted(&hook, &namespace, &ours);
    // With certificates from files, the webhook makes none of its own.
    let secret = [
        "get",
        "secret",
        "gpushare-webhook-tls",
        "--namespace=gpushare-system",
    ];
    assert!(hook.kubectl(&secret, None).refusal().contains("not found"));

    // The API server sends only what the configuration names.
    let theirs = json!({"nvidia.com/gpumem": 5});
    let untouched = until_admitted(&hook, &namespace, &theirs);
    let limits = |pod: &Value| pod["spec"]["containers"][0]["resources"]["limits"].clone();
    assert_eq!(limits(&untouched), json!({"nvidia.com/gpumem": "5"}));
    configure(&hook, |configuration| {
        let text = configuration.to_string();
        let text = text.replace(
            "'tencent.com/vcuda-'",
            "'tencent.com/vcuda-', 'nvidia.com/'",
        );
        *configuration = serde_json::from_str(&text).unwrap();
    });
    wait::until("HAMi's dialect to be served", || {
        let admitted = until_admitted(&hook, &namespace, &theirs);
        let filled = json!({"nvidia.com/gpumem": "5", "nvidia.com/gpu": "1"});
        if limits(&admitted) == filled {
            Ok(())
        } else {
            Err(admitted)
        }
    });
    webhook.assert_alive();
}

/// Text as Kubernetes encodes bytes.
fn base64(text: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap()
}

#[test]
fn a_budget_may_let_new_pods_wait_and_a_tenant_cannot_open_the_gate() {
    let namespace = SHARED.budgeted(false);
    let wait_for_budget = json!({"spec": {"whenExhausted": "ThrottleNew"}}).to_string();
    let patch = [
        "patch",
        "gpubudget",
        &namespace,
        "--type=merge",
        "-p",
        &wait_for_budget,
    ];
    assert!(SHARED.kubectl(&patch, None).ok);
    let status = json!({"status": {"exhausted": true}}).to_string();
    let patch = [
        "patch",
        "gpubudget",
        &namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    assert!(SHARED.kubectl(&patch, None).ok);
    let asking = pod("p", &json!({"aliyun.com/gpu-mem": 1}));
    wait::until("the webhook to know how the budget ends", || {
        let said = SHARED.dry_run(&namespace, &asking);
        if said.err.contains("new pods wait") {
            Ok(())
        } else {
            Err(said.err)
        }
    });
    let said = SHARED.create(&namespace, &asking);
    let stored = said.object();
    assert_eq!(
        stored["spec"]["schedulingGates"],
        json!([{"name": "gpushare.io/budget"}])
    );
    // The gate opens only when there is budget again, so the pod gets the class within budget.
    assert_eq!(stored["spec"]["priorityClassName"], "gpushare-in-budget");
    let open = json!({"spec": {"schedulingGates": null}}).to_string();
    let name = format!("--namespace={namespace}");
    let open = ["patch", "pod", "p", &name, "--type=merge", "-p", &open];
    let said = SHARED.kubectl(&[&open[..], &["--as=tenant"]].concat(), None);
    said.assert_refused("timekeeper");
    let said = SHARED.kubectl(&open, None);
    assert!(said.ok, "{}", said.err);
}

#[test]
fn the_webhooks_account_may_do_nothing_but_its_work() {
    let may = |verb: &str, what: &str, namespace: &str| {
        let account = "--as=system:serviceaccount:gpushare-system:gpushare-webhook";
        let namespace = format!("--namespace={namespace}");
        let ask = ["auth", "can-i", verb, what, &namespace, account];
        SHARED.kubectl(&ask, None).out.trim() == "yes"
    };
    let system = "gpushare-system";
    for (verb, what) in [
        ("patch", "mutatingwebhookconfigurations/gpushare"),
        ("patch", "validatingwebhookconfigurations/gpushare"),
        ("update", "secrets/gpushare-webhook-tls"),
        ("watch", "gpubudgets"),
    ] {
        assert!(may(verb, what, system), "{verb} {what}");
    }
    for (verb, what, namespace) in [
        ("patch", "mutatingwebhookconfigurations/other", system),
        ("delete", "mutatingwebhookconfigurations/gpushare", system),
        ("create", "mutatingwebhookconfigurations", system),
        ("get", "secrets/other", system),
        ("list", "secrets", system),
        ("get", "secrets/gpushare-webhook-tls", "default"),
        ("create", "secrets", "default"),
        ("get", "pods", "default"),
        ("patch", "pods", "default"),
        ("patch", "gpubudgets", system),
        ("settle", "gpubudgets.gpushare.io", system),
        ("create", "priorityclasses", system),
    ] {
        assert!(!may(verb, what, namespace), "{verb} {what} in {namespace}");
    }
}

#[test]
fn every_refusal_is_counted_and_written_down_with_who_asked() {
    let namespace = SHARED.namespace();
    let wrong = pod("wrong", &json!({"aliyun.com/gpu-mem": 0}));
    let said = SHARED.create_with(&namespace, &wrong, &["--as=tenant"]);
    said.assert_refused("aliyun.com/gpu-mem");
    let log = fs::read_to_string(SHARED.rig.logs().join("gpushare-webhook.log")).unwrap();
    let line = log
        .lines()
        .find(|line| line.contains("gpushare::audit") && line.contains(&namespace));
    let line = line.expect("a line of the audit log");
    for part in ["wrong", "tenant", "reason", "aliyun.com/gpu-mem"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let metrics = SHARED.get(0, "/metrics").unwrap().text();
    assert_contains(
        &metrics,
        r#"gpushare_webhook_denials_total{reason="request"}"#,
    );
}
