//! `kubectl gpushare why`: what it prints for each standing, and the schema of its JSON.

use assert_cmd::Command;
use gpushare_core::placement::Hold;
use gpushare_core::preempt::{ClaimRecord, Evictor};
use gpushare_core::record::Record;
use gpushare_core::{Amounts, CardId, HeldPod, NodeName, Placement, PodUid, gpu, held, names};
use gpushare_kube::convert::PodFacts;
use serde_json::{Value, json};

use crate::cluster::{Cluster, inventory_of};

pub(crate) fn ask(cluster: &Cluster, arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .arg("why")
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig())
        .assert()
}

pub(crate) fn said(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = ask(cluster, arguments).success().get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

fn complaint(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = ask(cluster, arguments).code(1).get_output().clone();
    String::from_utf8(output.stderr).unwrap()
}

/// A node whose agent and kubelet work.
pub(crate) fn node(name: &str, mib: &[u64]) -> Value {
    let sum: u64 = mib.iter().sum();
    let count = mib.len() as u64;
    json!({
        "metadata": {"name": name, "annotations": inventory_of(name, mib)},
        "status": {"allocatable": {
            "cpu": "8", "memory": "64Gi", "pods": "110",
            names::GPU: (count * 100).to_string(), names::GPU_MEM: sum.to_string(),
            names::GPU_CORE: (count * 100).to_string(), names::ALIYUN_GPU_MEM: (sum / 1024).to_string(),
        }},
    })
}

pub(crate) fn share(mib: u64) -> Value {
    json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": mib.to_string()})
}

pub(crate) fn waiting(name: &str, limits: &Value) -> Value {
    let container = json!({"name": "c", "image": "x", "resources": {"limits": limits}});
    let refused = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available"}]);
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending", "conditions": refused},
    })
}

async fn full() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("a", &[16_384])).await;
    cluster.add_node(&node("b", &[8_192])).await;
    cluster
        .place("holder", "a", &share(12_288), "GPU-a-0")
        .await;
    cluster.place("small", "b", &share(5_120), "GPU-b-0").await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_is_a_paragraph_and_what_would_help() {
    let cluster = full().await;
    cluster.add_pod(&waiting("p", &share(6_144))).await;
    insta::assert_snapshot!("paragraph", said(&cluster, &["p"]));
    insta::assert_snapshot!("wide", said(&cluster, &["p", "-o", "wide"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_of_the_json_is_kept() {
    let cluster = full().await;
    cluster.add_pod(&waiting("p", &share(6_144))).await;
    insta::assert_snapshot!("json", said(&cluster, &["p", "-o", "json"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_is_answered_for_before_it_is_applied() {
    let cluster = full().await;
    let deployment = json!({
        "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [
            {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": 10}}}]}}},
    });
    let file = cluster.write("web.yaml", &deployment.to_string());
    let file = file.to_str().unwrap();
    let said = said(&cluster, &["-f", file, "-o", "json"]);
    let answer: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(answer["standing"], "proposed");
    let step = &answer["help"][0]["steps"][0];
    assert_eq!(step["target"]["kind"], "Deployment");
    let path = "/spec/template/spec/containers/0/resources/limits/aliyun.com~1gpu-mem";
    let expected = json!([{"op": "replace", "path": path, "value": "4"}]);
    assert_eq!(step["patch"], expected, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_without_cards_are_told_but_nobody_is_sent_there() {
    let cluster = full().await;
    for name in ["cpu-1", "cpu-2"] {
        let host = json!({"cpu": "8", "memory": "64Gi", "pods": "110"});
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": host}});
        cluster.add_node(&node).await;
    }
    cluster.add_pod(&waiting("p", &share(6_144))).await;
    let text = said(&cluster, &["p"]).replace('\n', " ");
    assert!(
        text.contains("None of 4 nodes can take the pod now. Nearest are a and b:"),
        "{text}"
    );
    assert!(
        text.contains("The others: cpu-1 and cpu-2: no gpu cards published"),
        "{text}"
    );
    assert!(!text.contains("run the gpushare node agent"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_without_waiting_pods_says_so() {
    let cluster = full().await;
    let labels = json!({"app": "web"});
    let container = json!({"name": "c", "image": "x", "resources": {"limits": share(1_024)}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    cluster.create_at(path, &deployment).await;
    let mut pod = crate::cluster::pod("web-1", "a", &[share(1_024)], &json!({}));
    pod["metadata"]["labels"] = labels;
    cluster.add_pod(&pod).await;
    let text = said(&cluster, &["deployment/web"]).replace('\n', " ");
    assert!(
        text.contains("No pod of the Deployment web waits: 1 have a node."),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_comes_by_standard_input_too_and_may_fit() {
    let cluster = full().await;
    let pod = waiting("p", &share(1_024));
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .args(["why", "-f", "-"])
        .env("KUBECONFIG", cluster.kubeconfig())
        .write_stdin(pod.to_string())
        .assert()
        .success()
        .get_output()
        .clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        "2 nodes can take the pod now: it would be scheduled.\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_runs_or_has_ended_is_told_where_it_is() {
    let cluster = full().await;
    let text = said(&cluster, &["holder"]);
    assert_eq!(text, "The pod runs on a, on the card GPU-a-0.\n");
    let mut ended = waiting("ended", &share(1));
    ended["spec"]["nodeName"] = json!("a");
    ended["status"] =
        json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices"});
    cluster.add_pod(&ended).await;
    let text = said(&cluster, &["ended"]);
    assert_eq!(
        text,
        "The pod has ended (Failed) on a. UnexpectedAdmissionError: no devices\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_the_agent_does_not_start_shows_its_refusal() {
    let cluster = full().await;
    let limits = share(1_024);
    cluster.place("bound", "a", &limits, "GPU-a-0").await;
    let state =
        json!({"waiting": {"reason": "PreStartHookError", "message": "gpushare: no record"}});
    let status = json!({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [{"name": "c0", "image": "x", "imageID": "", "ready": false,
            "restartCount": 0, "state": state}]});
    cluster.set_status("bound", &status).await;
    let text = said(&cluster, &["bound"]).replace('\n', " ");
    assert!(
        text.contains("The pod is bound to a, on the card GPU-a-0."),
        "{text}"
    );
    assert!(
        text.contains("container c0 waits (PreStartHookError): gpushare: no record."),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_that_a_pod_past_the_scheduler_takes_are_told_to_those_who_wait_for_them() {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("a", &[16_384])).await;
    cluster.place("holder", "a", &share(5_120), "GPU-a-0").await;
    let mut past = crate::cluster::pod("past", "a", &[share(8_192)], &json!({}));
    past["status"] = json!({"phase": "Pending"});
    cluster.add_pod(&past).await;
    let text = said(&cluster, &["past"]).replace('\n', " ");
    assert!(
        text.contains("spec.nodeName ties the pod to a, past kube-scheduler and gpushare"),
        "{text}"
    );

    cluster.add_pod(&waiting("p", &share(6_144))).await;
    let text = said(&cluster, &["p"]).replace('\n', " ");
    for part in [
        "too little gpushare.io/gpu-mem: 6144 needed, 3072 of 16384 left",
        "default/past takes 8192 of gpushare.io/gpu-mem on a, and no card was chosen for it",
        "spec.nodeName was written by hand",
        "end the pod default/past on a",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert!(!text.contains("end the pod default/holder"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_an_empty_record_nor_an_incomplete_request_hides_a_pod_past_the_scheduler() {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("a", &[16_384])).await;
    let record = json!({names::ALLOCATION: ""});
    let mut empty = crate::cluster::pod("empty", "a", &[share(6_144)], &record);
    empty["status"] = json!({"phase": "Pending"});
    cluster.add_pod(&empty).await;
    let text = said(&cluster, &["empty"]).replace('\n', " ");
    for part in [
        "spec.nodeName ties the pod to a, past kube-scheduler and gpushare",
        "remove spec.nodeName and the annotation gpushare.io/allocation",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }

    // This pod runs: it asks for no device, so the kubelet never calls the agent.
    let memory_only = json!({"gpushare.io/gpu-mem": "6144"});
    let incomplete = crate::cluster::pod("incomplete", "a", &[memory_only], &json!({}));
    cluster.add_pod(&incomplete).await;
    cluster.add_pod(&waiting("p", &share(8_192))).await;
    let text = said(&cluster, &["p"]).replace('\n', " ");
    for part in [
        "too little gpushare.io/gpu-mem: 8192 needed, 4096 of 16384 left",
        "default/empty takes 6144 of gpushare.io/gpu-mem on a",
        "default/incomplete takes 6144 of gpushare.io/gpu-mem on a",
        "no card was chosen for them, because their spec.nodeName was written by hand",
        "so delete them.",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_up_budget_is_named() {
    let cluster = full().await;
    let mut pod = waiting("p", &share(1_024));
    pod["spec"]["schedulingGates"] = json!([{"name": "gpushare.io/budget"}]);
    cluster.add_pod(&pod).await;
    let text = said(&cluster, &["p"]);
    assert!(
        text.contains("GPU budget of its namespace is used up"),
        "{text}"
    );
    assert!(text.contains("grant GPU time to the budget"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn room_that_is_kept_for_a_preemptor_is_told_to_it_and_to_others() {
    let cluster = full().await;
    let limits = share(16_384);
    let preemptor = waiting("preemptor", &limits);
    let uid = PodUid::new(cluster.add_pod(&preemptor).await);
    let dialects = gpu::dialects(gpu::AliyunUnit::GiB);
    let facts = PodFacts::new(&serde_json::from_value(preemptor).unwrap(), &dialects);
    let placement = Placement::on_one_card(&facts.ask.unwrap().unwrap(), &CardId::new("GPU-a-0"));
    let record = Record::new(uid, NodeName::new("a"), &dialects.classes, &placement);
    let victim = cluster.uid("holder").await;
    let claim = ClaimRecord::new(record, vec![PodUid::new(victim)], Evictor::Gpushare, 1);
    let annotation = json!({names::PREEMPTION: claim.encode()});
    cluster.annotate("preemptor", &annotation).await;
    let text = said(&cluster, &["preemptor"]).replace('\n', " ");
    assert!(
        text.contains(
            "Room on a is being made for the pod: it starts when default/holder have ended"
        ),
        "{text}"
    );
    cluster.add_pod(&waiting("other", &share(4_096))).await;
    let text = said(&cluster, &["other"]).replace('\n', " ");
    assert!(
        text.contains("Room there is kept for pods that preempt"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_to_end_a_pod_where_containers_without_pods_would_still_fill_the_card() {
    let cluster = Cluster::start().await;
    let card = CardId::new("GPU-a-0");
    let outlived = HeldPod {
        pod: "gone".into(),
        name: "default/gone".into(),
        charges: [(card, Hold::Part(Amounts::of(gpu::MEMORY, 6_144)))]
            .into_iter()
            .collect(),
    };
    let held = held::encode(gpu::classes().get(gpu::CLASS).unwrap(), &[outlived]);
    let mut node = node("a", &[16_384]);
    node["metadata"]["annotations"][names::HELD] = held.into();
    cluster.add_node(&node).await;
    cluster.place("holder", "a", &share(8_192), "GPU-a-0").await;
    cluster.add_pod(&waiting("p", &share(12_288))).await;
    let text = said(&cluster, &["p"]).replace('\n', " ");
    assert!(text.contains("the most is 2048"), "{text}");
    assert!(text.contains("[gpushare.io/gpu-mem] to 2048"), "{text}");
    assert!(!text.contains("end the pod"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_at_which_no_scheduler_has_looked_says_so() {
    let cluster = full().await;
    let mut pod = waiting("p", &share(1_024));
    pod["status"] = json!({"phase": "Pending"});
    cluster.add_pod(&pod).await;
    let text = said(&cluster, &["p"]).replace('\n', " ");
    assert!(
        text.contains("kube-scheduler has not looked at it yet"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_pod_is_an_error_that_says_where_to_look() {
    let cluster = full().await;
    let mut pod = waiting("p", &share(1));
    pod["metadata"]["namespace"] = json!("team");
    cluster.add_pod(&pod).await;
    let text = complaint(&cluster, &["nobody"]);
    assert!(
        text.contains("there is no pod nobody in the namespace default"),
        "{text}"
    );
    assert!(text.contains("-f"), "{text}");
    let text = complaint(&cluster, &["p"]);
    assert!(text.contains("but in team: give -n"), "{text}");
    let text = complaint(&cluster, &["service/x"]);
    assert!(
        text.contains("is no type with pods: use pod, deployment"),
        "{text}"
    );
    let text = complaint(&cluster, &["deployment/x"]);
    assert!(text.contains("there is no deployment x"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_never_created_is_told_its_controllers_refusal() {
    let cluster = full().await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "StatefulSet", "name": "web", "namespace": "default"},
        "reason": "FailedCreate", "type": "Warning",
        "message": "create Pod web-0 in StatefulSet web failed error: exceeded quota: team",
    });
    cluster
        .create_at("/api/v1/namespaces/default/events", &event)
        .await;
    let text = complaint(&cluster, &["web"]);
    assert!(
        text.contains("it was not created: create Pod web-0"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_pod_is_refused_with_what_to_give() {
    let cluster = full().await;
    let file = cluster.write("service.yaml", "kind: Service\n");
    let text = complaint(&cluster, &["-f", file.to_str().unwrap()]);
    assert!(
        text.contains("it has no containers; give the manifest of a pod"),
        "{text}"
    );
    let text = complaint(&cluster, &["-f", "/nowhere/pod.yaml"]);
    assert!(text.contains("cannot read /nowhere/pod.yaml"), "{text}");
}
