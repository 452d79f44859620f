//! Pods that would take cards or totals without a booking: the API server itself refuses them, without any part of
//! ours.

use e2e::kubectl::refusal;
use e2e::manifest::{IMAGE, aliyun, annotated, gpushare, pod};
use e2e::world::{NODE, binary, install};
use e2e::{Kubectl, World, wait};
use gpushare_rig::{Options, Rig};
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

/// Makes the rig's runtime behave as NVIDIA's does by default: a container gets the cards that it names.
const GENEROUS_RUNTIME: &str = r#"
set -e
runc=$(readlink -f "$(command -v runc)")
cp "$runc" /run/plain-runc
cat > /run/generous-runc << 'END'
#!/bin/sh
for argument; do
    [ "$previous" = --bundle ] && bundle=$argument
    previous=$argument
done
if [ -n "$bundle" ] && grep -q '"NVIDIA_VISIBLE_DEVICES=all"' "$bundle/config.json"; then
    card='{"path":"/dev/nvidia0","type":"c","major":1,"minor":3,"fileMode":438}'
    sed -i 's|"linux":{|"linux":{"devices":['"$card"'],|' "$bundle/config.json"
fi
exec /run/plain-runc "$@"
END
chmod 755 /run/generous-runc
mount --bind /run/generous-runc "$runc"
"#;

/// A cluster with the policies of `deploy/`, and nothing else of ours.
fn guarded() -> Rig {
    let rig = Rig::start(Options::default()).unwrap();
    install(&rig, &["rbac.yaml", "admission.yaml"]);
    rig
}

/// The API server's answer to the object, without creating it.
fn tried(rig: &Rig, object: &Value, flags: &str) -> Result<String, String> {
    let answer = rig.send(&format!("create --dry-run=server {flags}"), object);
    answer.map_err(|error| format!("{error:#}"))
}

fn refused(rig: &Rig, object: &Value, why: &str) {
    // A new policy takes a moment to come into force.
    wait::until("the pod to be refused", || match tried(rig, object, "") {
        Err(said) if said.contains(why) => Ok(()),
        other => Err(other),
    });
}

fn accepted(rig: &Rig, object: &Value, flags: &str) {
    let answer = tried(rig, object, flags);
    assert!(answer.is_ok(), "{object}: {answer:?}");
}

fn on_node(mut pod: Value) -> Value {
    pod["spec"]["nodeName"] = json!(NODE);
    pod
}

#[test]
fn a_pod_that_names_its_node_and_asks_for_cards_is_refused_with_what_to_do() {
    let rig = guarded();
    let what_to_do =
        "remove spec.nodeName; to stay on that node, use a nodeSelector or node affinity";
    refused(&rig, &on_node(pod("past", gpushare(1024))), what_to_do);
    refused(&rig, &on_node(pod("past", aliyun(1))), what_to_do);
    let mut init = on_node(pod("past", json!({})));
    init["spec"]["initContainers"] = json!([init["spec"]["containers"][0]]);
    init["spec"]["initContainers"][0]["name"] = json!("i");
    init["spec"]["initContainers"][0]["resources"] = json!({"limits": aliyun(1)});
    refused(&rig, &init, what_to_do);

    // An empty record does not count as a record, not even if the extender itself wrote it.
    let empty = annotated(pod("past", gpushare(1024)), "gpushare.io/allocation", "");
    let extender =
        "--as=system:serviceaccount:gpushare-system:gpushare-extender --as-group=system:masters";
    accepted(&rig, &empty, extender);
    refused(&rig, &empty, "are written by the gpushare extender alone");
    let said = tried(&rig, &on_node(empty.clone()), extender).unwrap_err();
    assert!(said.contains(what_to_do), "{said}");
    assert!(tried(&rig, &on_node(empty), "").is_err());

    accepted(&rig, &on_node(pod("no-cards", json!({}))), "");
    accepted(&rig, &pod("scheduled", gpushare(1024)), "");

    // Only the kubelet may create the mirror of a static pod.
    let node = rig.get(&format!("node {NODE}")).unwrap();
    let mirror = on_node(pod("mirror", gpushare(1024)));
    let mut mirror = annotated(mirror, "kubernetes.io/config.mirror", "x");
    mirror["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node",
        "name": NODE, "uid": node["metadata"]["uid"], "controller": true}]);
    refused(&rig, &mirror, what_to_do);
    let kubelet = "--as=system:node:node --as-group=system:nodes";
    accepted(&rig, &mirror, kubelet);

    // A DaemonSet's pods set no nodeName; they name their node by affinity.
    let template = pod("x", gpushare(1024));
    let each = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "each"},
        "spec": {
            "selector": {"matchLabels": {"app": "scenario"}},
            "template": {"metadata": {"labels": {"app": "scenario"}}, "spec": template["spec"]},
        },
    });
    rig.apply(&each.to_string()).unwrap();
    wait::until("the DaemonSet's pod", || {
        match rig.ctl("get pods --selector=app=scenario --output=name") {
            Ok(names) if names.starts_with("pod/each-") => Ok(()),
            other => Err(other),
        }
    });
}

fn with_env(limits: Value, env: Value) -> Value {
    let mut pod = pod("p", limits);
    pod["spec"]["containers"][0]["env"] = env;
    pod
}

fn visible(value: &str) -> Value {
    json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}])
}

#[test]
fn a_container_that_asks_for_no_card_cannot_name_any() {
    let rig = guarded();
    let why = "container c asks for no card and names cards";
    let from_name = json!({"fieldRef": {"fieldPath": "metadata.name"}});
    let by_reference = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": from_name}]);
    let legacy = json!([{"name": "CUDA_VERSION", "value": "9.0"}]);
    let twice = json!([visible("void")[0], visible("all")[0]]);
    for env in [visible("all"), visible("0"), by_reference, legacy, twice] {
        refused(&rig, &with_env(json!({}), env), why);
    }
    let nothing = json!({"gpushare.io/gpu": "0"});
    refused(&rig, &with_env(nothing, visible("all")), why);

    // Where HAMi's resources are served, kube-scheduler is told to ignore this resource.
    let priority = json!({"nvidia.com/priority": "1"});
    refused(&rig, &with_env(priority, visible("all")), why);
    // The kubelet ignores resources that a node does not have.
    let nvidia = || with_env(json!({"nvidia.com/gpu": "1"}), visible("all"));
    refused(&rig, &on_node(nvidia()), why);

    for limits in [json!({}), gpushare(1024), json!({"nvidia.com/gpu": "1"})] {
        let mut mounted = pod("p", limits);
        mounted["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/dev/null"}}]);
        let path = "/var/run/./nvidia-container-devices/all";
        mounted["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "v", "mountPath": path}]);
        refused(&rig, &mounted, "container c names cards by a mount");
    }

    let mut init = pod("p", gpushare(1024));
    init["spec"]["initContainers"] = json!([{"name": "i", "image": IMAGE, "env": visible("all")}]);
    refused(&rig, &init, "container i asks for no card");

    for env in [visible("void"), visible("none"), visible(""), json!([])] {
        accepted(&rig, &with_env(json!({}), env), "");
    }
    // The device plugin of the resource sets the variable.
    accepted(&rig, &with_env(gpushare(1024), visible("all")), "");
    accepted(&rig, &nvidia(), "");

    // A label on the namespace allows device plugins and monitoring.
    rig.ctl("create namespace monitoring").unwrap();
    let exporter = with_env(json!({}), visible("all"));
    let there = "--namespace=monitoring";
    assert!(tried(&rig, &exporter, there).unwrap_err().contains(why));
    rig.ctl("label namespace monitoring gpushare.io/unbooked-cards=allowed")
        .unwrap();
    wait::until("the label to be heeded", || tried(&rig, &exporter, there));
}

#[test]
fn an_ephemeral_container_cannot_name_cards_either() {
    let rig = guarded();
    let bare = with_env(json!({}), visible("all"));
    refused(&rig, &bare, "asks for no card");
    let mut host = pod("host", json!({}));
    host["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    rig.apply(&host.to_string()).unwrap();
    let add_mounting = |name: &str, env: Value, mounts: Value| {
        let container = json!({"name": name, "image": IMAGE, "imagePullPolicy": "Never",
            "command": ["true"], "env": env, "volumeMounts": mounts});
        let patch = json!({"spec": {"ephemeralContainers": [container]}});
        rig.patch("pod host --subresource=ephemeralcontainers", &patch)
    };
    let add = |name: &str, env: Value| add_mounting(name, env, json!([]));
    let said = refusal(add("bad", visible("all")));
    assert_contains(&said, "container bad asks for no card and names cards");
    let mounts = json!([{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}]);
    let said = refusal(add_mounting("bad", json!([]), mounts));
    assert_contains(&said, "container bad names cards by a mount");
    add("good", visible("void")).unwrap();
    add("plain", json!([])).unwrap();
}

#[test]
fn doctor_finds_a_node_whose_runtime_gives_cards_to_everybody() {
    let world = World::start(&[8192]);
    let probed = || -> (Value, Value) {
        let mut doctor = world.rig().net(binary("kubectl-gpushare"));
        doctor.args(["doctor", "--output=json", "--probe", IMAGE]);
        let report: Value = serde_json::from_slice(&doctor.output().unwrap().stdout).unwrap();
        let mut checks = report["checks"].as_array().unwrap().iter();
        let check = checks.find(|check| check["name"] == "unbooked cards");
        let check = check.unwrap();
        (check["status"].clone(), check["message"].clone())
    };
    let closed = "no card is seen without asking, tried on 1 nodes";
    assert_eq!(probed(), (json!("ok"), json!(closed)));

    let mut runtime = world.rig().inside("sh");
    let made = runtime.args(["-c", GENEROUS_RUNTIME]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let open = "a container that asks for no card sees cards on node (/dev/nvidia0)";
    assert_eq!(probed(), (json!("fail"), json!(open)));

    let of_probes = "pods --selector=app.kubernetes.io/name=gpushare-probe";
    let left = world.ctl(&format!(
        "get {of_probes} --namespace=gpushare-system --output=name"
    ));
    assert_eq!(left.unwrap(), "");
}
