//! `kubectl gpushare why`: what it prints for each standing, and the schema of its JSON.

use gpushare_core::placement::Hold;
use gpushare_core::preempt::{ClaimRecord, Evictor};
use gpushare_core::record::Record;
use gpushare_core::{Amounts, CardId, HeldPod, NodeName, Placement, PodUid, gpu, held, names};
use gpushare_kube::convert::PodFacts;
use serde_json::{Value, json};

use crate::cluster::{Cluster, inventory_of, pod};
use crate::said::{assert_parts, stderr, stdout};

pub(crate) fn said(cluster: &Cluster, arguments: &[&str]) -> String {
    stdout(cluster.gpushare(&["why"]).args(arguments))
}

/// The answer about a pod or workload on one line. Also asserts that it has all these parts.
#[track_caller]
fn told(cluster: &Cluster, subject: &str, parts: &[&str]) -> String {
    let text = said(cluster, &[subject]).replace('\n', " ");
    assert_parts(&text, parts);
    text
}

/// The same about a new pod `p` that waits for this much of a card.
async fn told_to_waiting(cluster: &Cluster, mib: u64, parts: &[&str]) -> String {
    cluster.add_pod(&waiting("p", &share(mib))).await;
    told(cluster, "p", parts)
}

/// Asserts that the question fails with a complaint that has all these parts.
#[track_caller]
fn refused(cluster: &Cluster, arguments: &[&str], parts: &[&str]) {
    let complaint = stderr(cluster.gpushare(&["why"]).args(arguments), 1);
    assert_parts(&complaint, parts);
}

/// A part of the answer about a pod whose node was written by hand.
const PAST_SCHEDULER: &str = "spec.nodeName ties the pod to a, past kube-scheduler and gpushare";

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
    let nodes = [node("a", &[16_384]), node("b", &[8_192])];
    let cluster = Cluster::of_nodes(&nodes).await;
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
    let parts = [
        "None of 4 nodes can take the pod now. Nearest are a and b:",
        "The others: cpu-1 and cpu-2: no gpu cards published",
    ];
    let text = told_to_waiting(&cluster, 6_144, &parts).await;
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
    let mut placed = pod("web-1", "a", &[share(1_024)], &json!({}));
    placed["metadata"]["labels"] = labels;
    cluster.add_pod(&placed).await;
    let part = "No pod of the Deployment web waits: 1 have a node.";
    told(&cluster, "deployment/web", &[part]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_comes_by_standard_input_too_and_may_fit() {
    let cluster = full().await;
    let pod = waiting("p", &share(1_024));
    let mut why = cluster.gpushare(&["why", "-f", "-"]);
    let text = stdout(why.write_stdin(pod.to_string()));
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
    let parts = [
        "The pod is bound to a, on the card GPU-a-0.",
        "container c0 waits (PreStartHookError): gpushare: no record.",
    ];
    told(&cluster, "bound", &parts);
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_that_a_pod_past_the_scheduler_takes_are_told_to_those_who_wait_for_them() {
    let cluster = Cluster::of_nodes(&[node("a", &[16_384])]).await;
    cluster.place("holder", "a", &share(5_120), "GPU-a-0").await;
    let mut past = pod("past", "a", &[share(8_192)], &json!({}));
    past["status"] = json!({"phase": "Pending"});
    cluster.add_pod(&past).await;
    told(&cluster, "past", &[PAST_SCHEDULER]);

    let parts = [
        "too little gpushare.io/gpu-mem: 6144 needed, 3072 of 16384 left",
        "default/past takes 8192 of gpushare.io/gpu-mem on a, and no card was chosen for it",
        "spec.nodeName was written by hand",
        "end the pod default/past on a",
    ];
    let text = told_to_waiting(&cluster, 6_144, &parts).await;
    assert!(!text.contains("end the pod default/holder"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_an_empty_record_nor_an_incomplete_request_hides_a_pod_past_the_scheduler() {
    let cluster = Cluster::of_nodes(&[node("a", &[16_384])]).await;
    let record = json!({names::ALLOCATION: ""});
    let mut empty = pod("empty", "a", &[share(6_144)], &record);
    empty["status"] = json!({"phase": "Pending"});
    cluster.add_pod(&empty).await;
    let fix = "remove spec.nodeName and the annotation gpushare.io/allocation";
    told(&cluster, "empty", &[PAST_SCHEDULER, fix]);

    // This pod runs: it asks for no device, so the kubelet never calls the agent.
    let memory_only = json!({"gpushare.io/gpu-mem": "6144"});
    let incomplete = pod("incomplete", "a", &[memory_only], &json!({}));
    cluster.add_pod(&incomplete).await;
    let parts = [
        "too little gpushare.io/gpu-mem: 8192 needed, 4096 of 16384 left",
        "default/empty takes 6144 of gpushare.io/gpu-mem on a",
        "default/incomplete takes 6144 of gpushare.io/gpu-mem on a",
        "no card was chosen for them, because their spec.nodeName was written by hand",
        "so delete them.",
    ];
    told_to_waiting(&cluster, 8_192, &parts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_up_budget_is_named() {
    let cluster = full().await;
    let mut pod = waiting("p", &share(1_024));
    pod["spec"]["schedulingGates"] = json!([{"name": "gpushare.io/budget"}]);
    cluster.add_pod(&pod).await;
    let parts = [
        "GPU budget of its namespace is used up",
        "grant GPU time to the budget",
    ];
    assert_parts(&said(&cluster, &["p"]), &parts);
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
    let part = "Room on a is being made for the pod: it starts when default/holder have ended";
    told(&cluster, "preemptor", &[part]);
    cluster.add_pod(&waiting("other", &share(4_096))).await;
    let part = "Room there is kept for pods that preempt";
    told(&cluster, "other", &[part]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_to_end_a_pod_where_containers_without_pods_would_still_fill_the_card() {
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
    let cluster = Cluster::of_nodes(&[node]).await;
    cluster.place("holder", "a", &share(8_192), "GPU-a-0").await;
    let parts = ["the most is 2048", "[gpushare.io/gpu-mem] to 2048"];
    let text = told_to_waiting(&cluster, 12_288, &parts).await;
    assert!(!text.contains("end the pod"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_at_which_no_scheduler_has_looked_says_so() {
    let cluster = full().await;
    let mut pod = waiting("p", &share(1_024));
    pod["status"] = json!({"phase": "Pending"});
    cluster.add_pod(&pod).await;
    told(&cluster, "p", &["kube-scheduler has not looked at it yet"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_pod_is_an_error_that_says_where_to_look() {
    let cluster = full().await;
    let mut pod = waiting("p", &share(1));
    pod["metadata"]["namespace"] = json!("team");
    cluster.add_pod(&pod).await;
    let unknown = "there is no pod nobody in the namespace default";
    refused(&cluster, &["nobody"], &[unknown, "-f"]);
    refused(&cluster, &["p"], &["but in team: give -n"]);
    let no_type = "is no type with pods: use pod, deployment";
    refused(&cluster, &["service/x"], &[no_type]);
    refused(&cluster, &["deployment/x"], &["there is no deployment x"]);
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
    refused(
        &cluster,
        &["web"],
        &["it was not created: create Pod web-0"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_pod_is_refused_with_what_to_give() {
    let cluster = full().await;
    let file = cluster.write("service.yaml", "kind: Service\n");
    let part = "it has no containers; give the manifest of a pod";
    refused(&cluster, &["-f", file.to_str().unwrap()], &[part]);
    let nowhere = "/nowhere/pod.yaml";
    refused(
        &cluster,
        &["-f", nowhere],
        &["cannot read /nowhere/pod.yaml"],
    );
}
