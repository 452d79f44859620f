//! What an operator may configure: certificates from files, HAMi's dialect, budgets that make pods wait; and what the
//! operator can read afterwards.

use std::fs;

use e2e::hook::{Hook, pod};
use e2e::world::log_of;
use e2e::{Kubectl, wait};
use gpushare_testkit::assert_contains;
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};

use crate::{SHARED, limits};

const SERVICE: &str = "gpushare-webhook.gpushare-system.svc";
const KINDS: [&str; 2] = [
    "mutatingwebhookconfiguration",
    "validatingwebhookconfiguration",
];

/// Changes both configurations as an operator would.
fn configure(hook: &Hook, change: impl Fn(&mut Value)) {
    for kind in KINDS {
        let mut configuration = hook.rig.get(&format!("{kind} gpushare")).unwrap();
        change(&mut configuration);
        let said = hook.kubectl(&["replace", "--filename=-"], Some(&configuration));
        assert!(said.ok, "{}", said.err);
    }
}

fn until_admitted(hook: &Hook, namespace: &str, limits: &Value) -> Value {
    let asking = pod("p", limits);
    let admitted = || hook.dry_run(namespace, &asking).result();
    wait::until("the pod to be admitted", admitted)
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
    // With certificates from files, the webhook creates none of its own.
    let secret = "get secret gpushare-webhook-tls --namespace=gpushare-system";
    hook.say(secret).assert_refused("not found");

    // The API server sends only what the configuration names.
    let theirs = json!({"nvidia.com/gpumem": 5});
    let untouched = until_admitted(&hook, &namespace, &theirs);
    assert_eq!(limits(&untouched), json!({"nvidia.com/gpumem": "5"}));
    configure(&hook, |configuration| {
        let text = configuration.to_string();
        let text = text.replace(
            "'tencent.com/vcuda-'",
            "'tencent.com/vcuda-', 'nvidia.com/'",
        );
        *configuration = serde_json::from_str(&text).unwrap();
    });
    let filled = json!({"nvidia.com/gpumem": "5", "nvidia.com/gpu": "1"});
    let admitted = || until_admitted(&hook, &namespace, &theirs);
    wait::until_seen("HAMi's dialect to be served", admitted, |admitted| {
        limits(admitted) == filled
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
    let budget = format!("gpubudget {namespace} --type=merge");
    let wait_for_budget = json!({"spec": {"whenExhausted": "ThrottleNew"}});
    SHARED.rig.patch(&budget, &wait_for_budget).unwrap();
    let status = json!({"status": {"exhausted": true}});
    let budget = format!("{budget} --subresource=status");
    SHARED.rig.patch(&budget, &status).unwrap();
    let asking = pod("p", &json!({"aliyun.com/gpu-mem": 1}));
    let known = "the webhook to know how the budget ends";
    let warning = || SHARED.dry_run(&namespace, &asking).err;
    wait::until_seen(known, warning, |warning| warning.contains("new pods wait"));
    let stored = SHARED.create(&namespace, &asking).object();
    let gate = json!([{"name": "gpushare.io/budget"}]);
    assert_eq!(stored["spec"]["schedulingGates"], gate);
    // The gate opens only when there is budget again, so the pod gets the class within budget.
    assert_eq!(stored["spec"]["priorityClassName"], "gpushare-in-budget");
    let open = json!({"spec": {"schedulingGates": null}});
    let open = format!("patch pod p --namespace={namespace} --type=merge -p {open}");
    let said = SHARED.say(&format!("{open} --as=tenant"));
    said.assert_refused("timekeeper");
    let said = SHARED.say(&open);
    assert!(said.ok, "{}", said.err);
}

#[test]
fn the_webhooks_account_may_do_nothing_but_its_work() {
    let may = |verb: &str, what: &str, namespace: &str| {
        let account = "--as=system:serviceaccount:gpushare-system:gpushare-webhook";
        let ask = format!("auth can-i {verb} {what} --namespace={namespace} {account}");
        SHARED.say(&ask).out.trim() == "yes"
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
    let log = log_of(&SHARED.rig, "gpushare-webhook");
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
