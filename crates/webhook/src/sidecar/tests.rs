use gpushare_core::gpu::{self, AliyunUnit};
use serde_json::{Value, json};

use super::*;
use crate::decide::{self, ReviewContext, Rules, Verdict};
use crate::priority::{BudgetState, Classes};

fn sidecar() -> Sidecar {
    Sidecar {
        image: "gpushare-control:0.1.0".to_owned(),
        timekeeper: "https://timekeeper".to_owned(),
        authorities: "a certificate".to_owned(),
        cpu: "20m".to_owned(),
        memory: "32Mi".to_owned(),
    }
}

fn judge_with(settled: Option<Sidecar>, pod: &Value) -> Verdict {
    let manifest: Manifest = serde_json::from_value(pod.clone()).unwrap();
    decide::pod(&rules(settled), context(&Classes::new()), &manifest)
}

fn rules(settled: Option<Sidecar>) -> Rules {
    Rules {
        dialects: gpu::dialects(AliyunUnit::GiB),
        band: i32::MIN..=i32::MAX,
        sidecar: settled,
    }
}

fn context(classes: &Classes) -> ReviewContext<'_> {
    ReviewContext {
        namespace: "team-a",
        budget: BudgetState::Free,
        classes,
    }
}

fn allowed(verdict: Verdict) -> (Patch, Vec<String>) {
    match verdict {
        Verdict::Allowed { patch, warnings } => (patch, warnings),
        Verdict::Denied { message, .. } => panic!("denied: {message}"),
    }
}

fn refusal(pod: &Value) -> String {
    match judge_with(Some(sidecar()), pod) {
        Verdict::Denied { message, .. } => message,
        Verdict::Allowed { .. } => panic!("admitted: {pod}"),
    }
}

/// The pod as it is finally stored. A second review must not patch it again.
fn admitted(pod: &Value) -> Value {
    let apply = |pod: &Value| {
        let (patch, warnings) = allowed(judge_with(Some(sidecar()), pod));
        let operations: json_patch::Patch = serde_json::from_slice(&patch.json().unwrap()).unwrap();
        let mut patched = pod.clone();
        json_patch::patch(&mut patched, &operations).unwrap();
        (patched, patch, warnings)
    };
    let (patched, _, _) = apply(pod);
    let (_, again, _) = apply(&patched);
    assert!(again.is_empty(), "called again: {again:?}");
    patched
}

/// A pod as the API server shows it: with the mount of its service account's token.
fn asking() -> Value {
    let limits = json!({"aliyun.com/gpu-mem": "2", "cpu": "1", "memory": "1Gi"});
    json!({
        "metadata": {"name": "train", "annotations": {names::BUDGET_SIDECAR: "true"}},
        "spec": {
            "volumes": [{"name": "kube-api-access-x", "projected": {"sources": []}}],
            "containers": [{
                "name": "c", "resources": {"limits": limits, "requests": limits},
                "volumeMounts": [{"name": "kube-api-access-x", "mountPath": TOKEN_DIRECTORY, "readOnly": true}],
            }],
        },
    })
}

fn names_of(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one["name"].as_str().unwrap()).collect()
}

fn push(list: &mut Value, one: Value) {
    list.as_array_mut().unwrap().push(one);
}

fn mount_at_directory(container: &Value) -> &Value {
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mounts = mounts.iter();
    let mut found = mounts.filter(|mount| mount["mountPath"] == DIRECTORY);
    let mount = found.next().expect("a mount");
    assert_eq!(found.next(), None);
    mount
}

#[test]
fn a_pod_gets_the_sidecar_only_if_it_asks_and_asks_for_cards() {
    let mut pod = asking();
    for silent in [json!("false"), Value::Null] {
        pod["metadata"]["annotations"] = json!({});
        if silent != Value::Null {
            pod["metadata"]["annotations"][names::BUDGET_SIDECAR] = silent;
        }
        assert_eq!(admitted(&pod), pod);
    }
    let mut no_cards = asking();
    no_cards["spec"]["containers"][0]["resources"] = json!({});
    assert_eq!(admitted(&no_cards), no_cards);
    let mut unclear = asking();
    unclear["metadata"]["annotations"][names::BUDGET_SIDECAR] = json!("yes");
    assert!(refusal(&unclear).contains(r#""yes" is neither "true" nor "false""#));
}

#[test]
fn the_sidecar_comes_first_with_equal_requests_and_limits_and_no_rights() {
    let mut pod = asking();
    pod["spec"]["initContainers"] = json!([{"name": "load"}]);
    let stored = admitted(&pod);
    let init = &stored["spec"]["initContainers"];
    assert_eq!(names_of(init), [CONTAINER, "load"]);
    let ours = &init[0];
    assert_eq!(ours["restartPolicy"], "Always");
    assert_eq!(ours["image"], "gpushare-control:0.1.0");
    assert_eq!(ours["args"], json!(["sidecar"]));
    let amounts = json!({"cpu": "20m", "memory": "32Mi"});
    assert_eq!(ours["resources"]["limits"], amounts);
    assert_eq!(ours["resources"]["requests"], amounts);
    let rights = &ours["securityContext"];
    assert_eq!(rights["runAsNonRoot"], true);
    assert_eq!(rights["readOnlyRootFilesystem"], true);
    assert_eq!(rights["allowPrivilegeEscalation"], false);
    assert_eq!(rights["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(rights["seccompProfile"]["type"], "RuntimeDefault");
}

#[test]
fn its_token_is_for_the_timekeeper_alone_and_short() {
    let stored = admitted(&asking());
    let ours = &stored["spec"]["initContainers"][0];
    let mounts = ours["volumeMounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 2);
    assert_eq!(mounts[1]["mountPath"], TOKEN_DIRECTORY);
    let mut volumes = stored["spec"]["volumes"].as_array().unwrap().iter();
    let access = volumes.find(|volume| volume["name"] == mounts[1]["name"]);
    let sources = &access.unwrap()["projected"]["sources"];
    let token = json!({"audience": names::TIMEKEEPER_AUDIENCE, "expirationSeconds": 600, "path": TOKEN_FILE});
    assert_eq!(*sources, json!([{"serviceAccountToken": token}]));
}

#[test]
fn every_other_container_reads_the_budget_and_cannot_write_it() {
    let mut pod = asking();
    pod["spec"]["initContainers"] =
        json!([{"name": "load"}, {"name": "proxy", "restartPolicy": "Always"}]);
    push(&mut pod["spec"]["containers"], json!({"name": "d"}));
    let stored = admitted(&pod);
    let spec = &stored["spec"];
    let init = spec["initContainers"].as_array().unwrap().iter().skip(1);
    let all = init.chain(spec["containers"].as_array().unwrap());
    let ours = json!({"name": BUDGET, "mountPath": DIRECTORY, "readOnly": true});
    for container in all.clone() {
        assert_eq!(*mount_at_directory(container), ours);
    }
    assert_eq!(all.count(), 4);
}

#[test]
fn a_mount_of_the_users_stays_and_its_owner_is_told() {
    let mut pod = asking();
    let own = json!({"name": "mine", "mountPath": format!("{DIRECTORY}/")});
    pod["spec"]["containers"][0]["volumeMounts"] = json!([own]);
    let container = &admitted(&pod)["spec"]["containers"][0];
    assert_eq!(container["volumeMounts"], json!([own]));
    let (_, warnings) = allowed(judge_with(Some(sidecar()), &pod));
    let told = r#"container "c" has a mount of its own"#;
    assert!(warnings[0].contains(told), "{warnings:?}");
}

#[test]
fn the_budget_can_be_mounted_elsewhere_too_but_only_to_be_read() {
    let mut pod = asking();
    let elsewhere =
        |read_only| json!({"name": BUDGET, "mountPath": "/budget", "readOnly": read_only});
    pod["spec"]["containers"][0]["volumeMounts"] = json!([elsewhere(true)]);
    let stored = admitted(&pod);
    let container = &stored["spec"]["containers"][0];
    assert_eq!(container["volumeMounts"][0], elsewhere(true));
    mount_at_directory(container);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([elsewhere(false)]);
    assert!(refusal(&pod).contains("readOnly: true"));
}

#[test]
fn what_others_write_under_our_names_is_refused() {
    let taken = "the budget sidecar has this name";
    let named = json!({"name": CONTAINER, "image": "mine"});
    let mut sidecar_of_theirs = named.clone();
    sidecar_of_theirs["restartPolicy"] = json!("Always");
    let mut commanded = sidecar_of_theirs.clone();
    commanded["args"] = json!(["sidecar"]);
    commanded["command"] = json!(["/mine"]);
    for theirs in [&named, &sidecar_of_theirs, &commanded] {
        let mut pod = asking();
        pod["spec"]["initContainers"] = json!([theirs]);
        let message = refusal(&pod);
        assert!(message.contains(taken), "{message}");
    }
    let mut pod = asking();
    push(&mut pod["spec"]["containers"], named);
    assert!(refusal(&pod).contains(taken));
    for volume in [BUDGET, ACCESS] {
        let mut pod = asking();
        pod["spec"]["volumes"] = json!([{"name": volume, "emptyDir": {}}]);
        let message = refusal(&pod);
        assert!(message.contains(&format!("volume {volume:?}")), "{message}");
    }
    let mut pod = asking();
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": ACCESS, "mountPath": "/token"}]);
    assert!(refusal(&pod).contains("the budget sidecar's own"));
}

#[test]
fn a_copy_of_an_old_pod_gets_the_sidecar_of_today() {
    let mut pod = asking();
    pod["spec"]["initContainers"] = json!([{"name": "load"}]);
    let mut old = admitted(&pod);
    let ours = &mut old["spec"]["initContainers"][0];
    ours["env"][1]["value"] = json!("another certificate");
    ours["image"] = json!("gpushare-control:0.0.1");
    let stored = admitted(&old);
    assert_eq!(stored, admitted(&pod));
}

#[test]
fn what_others_change_of_the_sidecar_after_us_stays() {
    let mut pod = admitted(&asking());
    let ours = &mut pod["spec"]["initContainers"][0];
    ours["image"] = json!("mirror.example/gpushare-control@sha256:00");
    ours["imagePullPolicy"] = json!("Always");
    ours["resources"]["limits"]["ephemeral-storage"] = json!("1Gi");
    let more = json!({"name": "trust", "mountPath": "/etc/ssl"});
    push(&mut ours["volumeMounts"], more);
    assert_eq!(admitted(&pod), pod);
}

#[test]
fn lists_that_are_missing_are_made() {
    let mut pod = asking();
    pod["spec"].as_object_mut().unwrap().remove("volumes");
    let container = pod["spec"]["containers"][0].as_object_mut().unwrap();
    container.remove("volumeMounts");
    let stored = admitted(&pod);
    assert_eq!(names_of(&stored["spec"]["volumes"]), [BUDGET, ACCESS]);
    mount_at_directory(&stored["spec"]["containers"][0]);
}

#[test]
fn without_an_image_nothing_is_added_and_the_owner_is_told_once() {
    let pod = asking();
    let (patch, warnings) = allowed(judge_with(None, &pod));
    assert!(patch.is_empty());
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("--sidecar-image"), "{warnings:?}");
}

#[test]
fn a_template_is_warned_about_as_its_pods_will_be_judged() {
    let warnings = |settled, template: &Value| {
        let template: Manifest = serde_json::from_value(template.clone()).unwrap();
        decide::template(&rules(settled), context(&Classes::new()), &template)
    };
    let mut template = asking();
    assert_eq!(warnings(Some(sidecar()), &template), [""; 0]);
    assert!(warnings(None, &template)[0].contains("--sidecar-image"));
    template["spec"]["volumes"] = json!([{"name": BUDGET, "emptyDir": {}}]);
    let warned = warnings(Some(sidecar()), &template);
    let refused = "its pods will be refused: volume";
    assert!(warned[0].contains(refused), "{warned:?}");
}
