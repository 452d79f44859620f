//! Devices other than GPUs, known by configuration alone: filtered, bound and recorded like GPUs.

use gpushare_core::devices::Devices;
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::names;
use gpushare_extender::config::Config;
use gpushare_testkit::assert_contains;
use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::api::Following;
use crate::asked::Asked;
use crate::cluster::config;

fn with_rdma() -> Dialects {
    let devices: Devices = serde_json::from_value(json!({"classes": [{
        "name": "rdma",
        "dimensions": [{"name": "bandwidth", "unit": "Mbit/s"}],
        "requests": [{"name": "rdma", "count": "rdma/hca", "parts": [
            {"resource": "rdma/bandwidth", "dimension": "bandwidth"}]}],
        "annotations": [{"name": "gpushare.io/rdma-models", "chooses": "models"}],
    }]}))
    .unwrap();
    devices.add_to(gpu::dialects(AliyunUnit::GiB)).unwrap()
}

fn port(node: &str, index: u32, bandwidth: u64) -> Value {
    json!({"id": format!("mlx5-{node}-{index}"), "class": "rdma", "index": index,
        "model": "ConnectX-6", "capacity": {"bandwidth": bandwidth}})
}

/// A node whose ports were published; it has no GPUs here.
fn node(name: &str, ports: &[u64]) -> Value {
    let cards: Vec<Value> = (0..)
        .zip(ports)
        .map(|(index, bandwidth)| port(name, index, *bandwidth))
        .collect();
    let inventory = json!({"version": 1, "cards": cards}).to_string();
    let annotation = format!("{}.rdma", names::CARDS);
    json!({"metadata": {"name": name, "annotations": {annotation: inventory}}})
}

async fn start(nodes: &[Value]) -> Following {
    let config = Config {
        dialects: with_rdma(),
        ..config()
    };
    Following::prepare_with(config, nodes)
        .await
        .following()
        .await
}

async fn create(cluster: &Following, name: &str, limits: Value, annotations: Value) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [
            {"name": "main", "image": "none", "resources": {"limits": limits, "requests": limits}}]},
    });
    cluster.pods().add(pod).await
}

/// Why n1 refuses the pod.
async fn refusal(cluster: &Following, pod: &Pod) -> String {
    let result = cluster.filter(pod, &["n1"]).await;
    result.refused().remove("n1").unwrap()
}

#[tokio::test]
async fn a_share_of_bandwidth_is_filtered_bound_and_recorded() {
    let cluster = start(&[node("n1", &[100_000, 100_000]), node("n2", &[25_000])]).await;
    let half = json!({"rdma/bandwidth": "60000"});
    for (name, port) in [("a", "mlx5-n1-0"), ("b", "mlx5-n1-1")] {
        let pod = create(&cluster, name, half.clone(), json!({})).await;
        let result = cluster.filter(&pod, &["n1", "n2"]).await;
        let refused = result.refused();
        assert_eq!(result.node_names.unwrap(), ["n1"]);
        assert_eq!(
            refused["n2"],
            "gpushare: no card has 60000 Mbit/s of bandwidth in all, the most is 25000"
        );
        assert_eq!(cluster.bind(&pod, "n1").await, "");
        let bound = cluster.read(name).await;
        let record: Value =
            serde_json::from_str(&bound.metadata.annotations.unwrap()[names::ALLOCATION]).unwrap();
        let placed = &record["containers"][0];
        assert_eq!(placed["class"], "rdma");
        assert_eq!(placed["cards"][0]["id"], port);
        assert_eq!(placed["cards"][0]["amounts"], json!({"bandwidth": 60000}));
    }
    let pod = create(&cluster, "c", half, json!({})).await;
    assert_eq!(
        refusal(&cluster, &pod).await,
        "gpushare: no card has 60000 Mbit/s of bandwidth free, the most is 40000"
    );
}

#[tokio::test]
async fn whole_ports_and_selectors_work_as_for_any_card() {
    let cluster = start(&[node("n1", &[100_000, 100_000])]).await;
    let both = json!({"rdma/hca": "2"});
    let pod = create(&cluster, "whole", both, json!({})).await;
    assert_eq!(cluster.bind(&pod, "n1").await, "");
    let share = json!({"rdma/bandwidth": "1"});
    let pod = create(&cluster, "late", share.clone(), json!({})).await;
    assert_eq!(
        refusal(&cluster, &pod).await,
        "gpushare: no card has 1 Mbit/s of bandwidth free, the most is 0"
    );
    let picky = json!({"gpushare.io/rdma-models": "BlueField"});
    let pod = create(&cluster, "picky", share, picky).await;
    assert_contains(&refusal(&cluster, &pod).await, "selectors exclude");
}

#[tokio::test]
async fn a_pod_may_need_two_classes_and_gets_both_or_none() {
    let gpus = crate::cluster::node("n1", &[8]);
    let mut both = node("n1", &[100_000]);
    let cards = gpus["metadata"]["annotations"][names::CARDS].clone();
    both["metadata"]["annotations"][names::CARDS] = cards;
    let cluster = start(&[both]).await;
    let limits = json!({"aliyun.com/gpu-mem": "4", "rdma/bandwidth": "80000"});
    let first = create(&cluster, "first", limits.clone(), json!({})).await;
    assert_eq!(cluster.bind(&first, "n1").await, "");
    let second = create(&cluster, "second", limits, json!({})).await;
    cluster
        .bind_fails(&second, "n1", "80000 Mbit/s of bandwidth free")
        .await;
    cluster.until_confirmed(1).await;
}
