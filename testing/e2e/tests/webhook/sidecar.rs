//! The budget sidecar on a real kubelet: added by the webhook on the real API server, run by the real runtime.
//! The sidecar queries a timekeeper of the test.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::hook::{Hook, KubectlOutput};
use e2e::manifest::{self, IMAGE, RUN, annotated};
use e2e::timekeeper_stub::TimekeeperStub;
use e2e::{Kubectl, wait};
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

use crate::limits;

const SIDECAR: &str = "gpushare-budget";
const FILE: &str = "/var/run/gpushare/budget/budget.json";
const WISH: &str = "gpushare.io/budget-sidecar";

struct World {
    hook: Hook,
    timekeeper: TimekeeperStub,
}

/// One cluster for all tests here. Only the scheduler knows of its node's cards: these tests are not about which pod
/// gets which card.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    let image = "gpushare.test/control:1";
    let hook = Hook::cluster();
    hook.add_control_image(image);
    let timekeeper = TimekeeperStub::start(&hook.rig);
    let (ca, url) = (timekeeper.ca(), timekeeper.url.clone());
    let asked = ["--sidecar-timekeeper", &url, "--sidecar-ca", &ca];
    let hook = hook.with_lasting(&[&["--sidecar-image", image], &asked[..]].concat());
    let cards = json!({"aliyun.com/gpu-mem": "100"});
    let patch = json!({"status": {"capacity": cards, "allocatable": cards}});
    let node = "node node --subresource=status --type=merge";
    hook.rig.patch(node, &patch).unwrap();
    World { hook, timekeeper }
});

fn standing(remaining: i64) -> Value {
    json!({
        "budget": {"name": "vision", "remainingSeconds": remaining, "exhausted": remaining <= 0, "exhaustsAt": null},
        "overBudget": remaining <= 0, "evictAt": null,
    })
}

/// A pod that satisfies the restricted Pod Security Standard, so that only the sidecar could violate it.
fn pod(name: &str, script: &str) -> Value {
    let limits = json!({"cpu": "100m", "memory": "32Mi", "aliyun.com/gpu-mem": 1});
    let restricted = json!({
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true, "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "containers": [{
                "name": "app", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script],
                "resources": {"limits": limits}, "securityContext": restricted,
            }],
            "terminationGracePeriodSeconds": 30,
        },
    });
    annotated(pod, WISH, "true")
}

impl World {
    fn exec(&self, namespace: &str, pod: &str, script: &str) -> KubectlOutput {
        let namespace = format!("--namespace={namespace}");
        let exec = ["exec", pod, &namespace, "--container=app"];
        let shell = ["--", "sh", "-c", script];
        self.hook.kubectl(&[exec, shell].concat(), None)
    }

    /// Waits until the application reads a matching state in the file.
    fn wait_told(&self, namespace: &str, pod: &str, told: impl Fn(&Value) -> bool) -> Value {
        wait::until("the application to be told", || {
            let said = self.exec(namespace, pod, &format!("cat {FILE}"));
            match serde_json::from_str::<Value>(&said.out) {
                Ok(read) if told(&read) => Ok(read),
                _ => {
                    let pod = self.hook.pod(namespace, pod);
                    Err(format!("{said:?} {}", pod["status"]))
                }
            }
        })
    }
}

/// The claims of a token, as its issuer wrote them.
fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

/// Hole W17 of the predecessor: its sidecar had no resources.
#[test]
fn a_guaranteed_pod_stays_so_within_its_quota_and_its_application_reads_the_budget() {
    let world = &*WORLD;
    let namespace = world.hook.namespace();
    let label = "pod-security.kubernetes.io/enforce=restricted";
    let label = format!("label namespace {namespace} {label}");
    world.hook.rig.ctl(&label).unwrap();
    let hard = json!({
        "requests.cpu": "1", "limits.cpu": "1", "requests.memory": "256Mi", "limits.memory": "256Mi",
    });
    let quota = manifest::quota("all", &hard);
    world.hook.create(&namespace, &quota).object();
    world.timekeeper.says(standing(7200));
    let created = || world.hook.create(&namespace, &pod("train", RUN)).result();
    let stored = wait::until("the quota to be counted", created);
    assert_eq!(stored["status"]["qosClass"], "Guaranteed");
    let ours = &stored["spec"]["initContainers"][0];
    assert_eq!(ours["name"], SIDECAR);
    let mounts = ours["volumeMounts"].as_array().unwrap().len();
    assert_eq!(mounts, 2, "no token for the API server: {ours}");

    let told = world.wait_told(&namespace, "train", |told| told["stale"] == false);
    assert_eq!(told["remaining"], 7200);
    let served = "timeout 20 wget -q -O - http://127.0.0.1:12356/budget";
    let served = world.exec(&namespace, "train", served).object();
    assert_eq!(served["remaining"], 7200);
    let written = world.exec(&namespace, "train", &format!("echo {{}} > {FILE}"));
    written.assert_refused("Read-only");

    let asked = world.timekeeper.questions(&namespace);
    let asked = asked.last().unwrap();
    assert_eq!(asked.path, format!("/v1/namespaces/{namespace}/pods/train"));
    let claims = claims(&asked.token);
    assert_eq!(claims["aud"], json!(["gpushare-timekeeper"]));
    assert_eq!(claims["kubernetes.io"]["pod"]["name"], "train");
    let account = format!("system:serviceaccount:{namespace}:default");
    assert_eq!(claims["sub"], account);
    let life = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert!(life <= 600, "{life}");
}

#[test]
fn the_application_lives_on_with_what_was_known_while_the_timekeeper_is_away() {
    let world = &*WORLD;
    let namespace = world.hook.namespace();
    world.timekeeper.says(standing(60));
    world.hook.create(&namespace, &pod("train", RUN)).object();
    world.wait_told(&namespace, "train", |told| told["stale"] == false);
    world.timekeeper.goes_away();
    let told = world.wait_told(&namespace, "train", |told| told["stale"] == true);
    assert_eq!(told["remaining"], 60);
    let mut over = standing(0);
    over["evictAt"] = json!("2026-11-16T10:10:00Z");
    world.timekeeper.says(over);
    let told = world.wait_told(&namespace, "train", |told| told["stale"] == false);
    assert_eq!(told["evictAt"], "2026-11-16T10:10:00Z");
    assert_eq!(told["overBudget"], true);
    let status = world.hook.pod(&namespace, "train")["status"].clone();
    assert_eq!(status["phase"], "Running");
    for list in ["containerStatuses", "initContainerStatuses"] {
        assert_eq!(status[list][0]["restartCount"], 0, "{list}");
    }
}

#[test]
fn a_job_with_the_sidecar_completes() {
    let world = &*WORLD;
    let namespace = world.hook.namespace();
    world.timekeeper.says(standing(60));
    let script = format!("until grep -q '\"stale\":false' {FILE}; do sleep 0.1; done");
    let template = pod("unused", &script);
    let mut spec = template["spec"].clone();
    spec["restartPolicy"] = json!("Never");
    // The sidecar has a token of its own.
    spec["automountServiceAccountToken"] = json!(false);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"annotations": {WISH: "true"}}, "spec": spec},
        },
    });
    world.hook.create(&namespace, &job).object();
    let job = format!("job train --namespace={namespace}");
    let status = || world.hook.rig.get(&job).unwrap()["status"].take();
    wait::until_seen("the job to complete", status, |status| {
        status["succeeded"] == 1
    });
}

#[test]
fn nobody_takes_the_sidecars_place_by_its_names() {
    let world = &*WORLD;
    let namespace = world.hook.namespace();
    let mut taken = pod("p", RUN);
    let mut theirs = taken["spec"]["containers"][0].clone();
    theirs["name"] = json!(SIDECAR);
    theirs["restartPolicy"] = json!("Always");
    taken["spec"]["initContainers"] = json!([theirs]);
    let said = world.hook.create_with(&namespace, &taken, &["--as=tenant"]);
    said.assert_refused("the budget sidecar has this name");
    let mut volume = pod("p", RUN);
    volume["spec"]["volumes"] = json!([{"name": SIDECAR, "emptyDir": {}}]);
    let said = world.hook.create(&namespace, &volume);
    said.assert_refused("the budget sidecar has a volume of this name");
    // A copy of a pod that already has the sidecar is accepted like the pod itself.
    let stored = world.hook.dry_run(&namespace, &pod("p", RUN)).object();
    let copy = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": stored["spec"],
        "metadata": {"name": "copy", "annotations": stored["metadata"]["annotations"]},
    });
    let copied = world.hook.dry_run(&namespace, &copy).object();
    for list in ["initContainers", "volumes"] {
        assert_eq!(copied["spec"][list], stored["spec"][list], "{list}");
    }
}

/// The API server runs its own admission plugins again after a webhook, and then the webhook again.
#[test]
fn what_a_limit_range_adds_to_the_sidecar_stays() {
    let world = &*WORLD;
    let namespace = world.hook.namespace();
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"},
        "spec": {"limits": [{"type": "Container", "default": {"ephemeral-storage": "1Gi"}}]},
    });
    world.hook.create(&namespace, &range).object();
    let stored = || world.hook.dry_run(&namespace, &pod("p", RUN)).object();
    let stored = wait::until_seen("the range to be known", stored, |stored| {
        limits(stored)["ephemeral-storage"] == "1Gi"
    });
    let init = stored["spec"]["initContainers"].as_array().unwrap();
    assert_eq!(init.len(), 1);
    assert_eq!(init[0]["resources"]["limits"]["ephemeral-storage"], "1Gi");
}

#[test]
fn without_an_image_the_owner_is_warned_and_the_pod_is_as_it_was() {
    let namespace = crate::SHARED.namespace();
    let said = crate::SHARED.dry_run(&namespace, &pod("p", RUN));
    assert_contains(&said.err, "Warning: gpushare: no budget sidecar is added");
    assert_eq!(said.object()["spec"].get("initContainers"), None);
}
