//! Every shape of request: several cards, whole cards, limits, several containers, every dialect.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::pods::{Pod, pod};
use crate::support::{ALIYUN, HAMI, SLOTS, TENCENT, World};

/// Starts the pod's container `main` with this many devices of a resource. Returns its environment.
async fn started(
    world: &World,
    name: &str,
    resource: &str,
    devices: u64,
) -> BTreeMap<String, String> {
    world.kubelet.admit(name, "main", resource, devices).await;
    world.kubelet.start_container(name, "main").await.unwrap();
    world.environment(name, "main").unwrap()
}

fn main(name: &str, limits: Value) -> Pod {
    pod(name).asking("main", limits)
}

fn expect(env: &BTreeMap<String, String>, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(
            env.get(*name).map(String::as_str),
            Some(*value),
            "{name} in {env:?}"
        );
    }
}

#[tokio::test]
async fn four_cards_are_all_seen_with_the_same_share_of_each() {
    let world = World::with_cards(&[8, 8, 8, 8]).await;
    let cards = world.cards(&[2, 0, 3, 1]);
    let asking = main(
        "a",
        json!({"gpushare.io/gpu": "4", "gpushare.io/gpu-mem": "3072", "gpushare.io/gpu-core": "30"}),
    );
    world.show(asking.on_cards(8, &[&cards]));
    let env = started(&world, "a", SLOTS, 4).await;
    let all = cards.join(",");
    expect(
        &env,
        &[
            ("NVIDIA_VISIBLE_DEVICES", &all),
            ("GPUSHARE_CARDS", &all),
            ("GPUSHARE_MEMORY_MIB", "3072"),
            ("GPUSHARE_CORE_PERCENT", "30"),
        ],
    );
    world.end().await;
}

#[tokio::test]
async fn whole_cards_of_different_sizes_are_seen_each_with_its_own_memory() {
    let world = World::with_cards(&[8, 16]).await;
    let cards = world.cards(&[0, 1]);
    world.show(main("a", json!({"gpushare.io/gpu": "2"})).on_cards(8, &[&cards]));
    let env = started(&world, "a", SLOTS, 2).await;
    expect(
        &env,
        &[
            ("NVIDIA_VISIBLE_DEVICES", &*cards.join(",")),
            ("GPUSHARE_MEMORY_MIB", "8192,16384"),
            ("GPUSHARE_CORE_PERCENT", "100"),
        ],
    );
    world.end().await;
}

#[tokio::test]
async fn the_drivers_spec_gives_the_nodes_of_every_card_once() {
    let world = World::with_cards(&[8, 8, 8]).await;
    let device = |index: usize| {
        let nodes = json!([{"path": format!("/dev/nvidia{index}")}]);
        json!({"name": world.card(index), "containerEdits": {"deviceNodes": nodes}})
    };
    let spec = json!({
        "cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device(0), device(1), device(2)],
        "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}]},
    });
    std::fs::write(world.cdi_dir().join("nvidia.json"), spec.to_string()).unwrap();
    let asking = main(
        "a",
        json!({"gpushare.io/gpu": "2", "gpushare.io/gpu-mem": "1024"}),
    );
    world.show(asking.on_cards(8, &[&world.cards(&[2, 0])]));
    started(&world, "a", SLOTS, 2).await;
    let edits = world.edits("a", "main").unwrap();
    let nodes = edits["deviceNodes"].as_array().unwrap().iter();
    let mut paths: Vec<&str> = nodes.map(|node| node["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/dev/nvidia0", "/dev/nvidia2", "/dev/nvidiactl"]);
    world.end().await;
}

#[tokio::test]
async fn aliyuns_count_gives_the_same_memory_on_each_card() {
    let world = World::with_cards(&[8, 8, 8]).await;
    let cards = world.cards(&[1, 2]);
    let asking = main(
        "a",
        json!({"aliyun.com/gpu-mem": "3", "aliyun.com/gpu-count": "2"}),
    );
    world.show(asking.on_cards(8, &[&cards]));
    let env = started(&world, "a", ALIYUN, 3).await;
    expect(
        &env,
        &[
            ("NVIDIA_VISIBLE_DEVICES", &*cards.join(",")),
            ("ALIYUN_COM_GPU_MEM_IDX", "1,2"),
            ("ALIYUN_COM_GPU_MEM_CONTAINER", "3"),
            ("ALIYUN_COM_GPU_MEM_DEV", "8"),
            ("GPUSHARE_MEMORY_MIB", "3072"),
        ],
    );
    world.end().await;
}

#[tokio::test]
async fn tencents_share_whole_card_and_whole_card_with_a_memory_limit_start() {
    let world = World::with_cards(&[8, 8, 8, 8]).await;
    let share = json!({"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "10"});
    world.show(main("share", share).on_cards(8, &[&world.cards(&[0])]));
    let env = started(&world, "share", TENCENT, 30).await;
    expect(
        &env,
        &[
            ("NVIDIA_VISIBLE_DEVICES", &*world.card(0)),
            ("GPUSHARE_MEMORY_MIB", "2560"),
            ("GPUSHARE_CORE_PERCENT", "30"),
        ],
    );

    let cards = world.cards(&[2, 1]);
    let whole = json!({"tencent.com/vcuda-core": "200"});
    world.show(main("whole", whole).on_cards(8, &[&cards]));
    let env = started(&world, "whole", TENCENT, 200).await;
    expect(
        &env,
        &[
            ("NVIDIA_VISIBLE_DEVICES", &*cards.join(",")),
            ("GPUSHARE_MEMORY_MIB", "8192"),
        ],
    );

    let limited = json!({"tencent.com/vcuda-core": "100", "tencent.com/vcuda-memory": "4"});
    world.show(main("limited", limited).on_cards(8, &[&world.cards(&[3])]));
    let env = started(&world, "limited", TENCENT, 100).await;
    expect(
        &env,
        &[
            ("NVIDIA_VISIBLE_DEVICES", &*world.card(3)),
            ("GPUSHARE_MEMORY_MIB", "1024"),
            ("GPUSHARE_CORE_PERCENT", "100"),
        ],
    );
    world.end().await;
}

#[tokio::test]
async fn hamis_containers_get_the_variables_that_its_library_reads() {
    let world = World::with_hami(&[8, 8]).await;
    let cards = world.cards(&[1, 0]);
    let asking = main(
        "a",
        json!({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}),
    );
    world.show(asking.on_cards(8, &[&cards]));
    let env = started(&world, "a", HAMI, 2).await;
    expect(
        &env,
        &[
            ("NVIDIA_VISIBLE_DEVICES", &*cards.join(",")),
            ("CUDA_DEVICE_MEMORY_LIMIT_0", "3000m"),
            ("CUDA_DEVICE_MEMORY_LIMIT_1", "3000m"),
            ("CUDA_DEVICE_SM_LIMIT", "30"),
        ],
    );

    let half = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"});
    world.show(main("half", half).on_cards(8, &[&world.cards(&[0])]));
    let env = started(&world, "half", HAMI, 1).await;
    expect(
        &env,
        &[
            ("CUDA_DEVICE_MEMORY_LIMIT_0", "4096m"),
            ("CUDA_DEVICE_SM_LIMIT", "0"),
        ],
    );
    world.end().await;
}

#[tokio::test]
async fn a_sidecar_an_init_container_and_two_apps_each_see_their_own_share() {
    let world = World::with_cards(&[8, 8]).await;
    let mib = |mib: &str| json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": mib});
    let asking = pod("a")
        .init_mib("fetch", 6000)
        .sidecar("proxy", mib("500"))
        .asking("train", mib("2000"))
        .asking("serve", mib("1000"));
    let (one, two) = (world.cards(&[0]), world.cards(&[1]));
    world.show(asking.on_cards(8, &[&one, &two, &one, &two]));
    world.kubelet.admit_init("a", "fetch", SLOTS, 1).await;
    // The kubelet reuses the devices of a finished init container for sidecars, too.
    world.kubelet.admit_reusing("a", "proxy", "fetch").await;
    for container in ["train", "serve"] {
        world.kubelet.admit("a", container, SLOTS, 1).await;
    }
    for (container, card, mib) in [
        ("fetch", 0, "6000"),
        ("proxy", 1, "500"),
        ("train", 0, "2000"),
        ("serve", 1, "1000"),
    ] {
        world.kubelet.start_container("a", container).await.unwrap();
        let env = world.environment("a", container).unwrap();
        expect(
            &env,
            &[
                ("NVIDIA_VISIBLE_DEVICES", &*world.card(card)),
                ("GPUSHARE_MEMORY_MIB", mib),
            ],
        );
    }
    world.end().await;
}

#[tokio::test]
async fn a_record_of_a_whole_card_beside_a_share_is_refused() {
    let world = World::with_cards(&[8, 8]).await;
    let share = json!({"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "10"});
    world.show(main("share", share).on_cards(8, &[&world.cards(&[0])]));
    started(&world, "share", TENCENT, 30).await;

    let whole = main("whole", json!({"gpushare.io/gpu": "1"}));
    world.show(whole.on_cards(8, &[&world.cards(&[0])]));
    world.kubelet.admit("whole", "main", SLOTS, 1).await;
    let refused = world.kubelet.start_container("whole", "main").await;
    let message = refused.unwrap_err().message().to_owned();
    assert!(message.contains("has 5632 MiB of memory free"), "{message}");
    assert!(world.environment("whole", "main").is_err());

    world.show(whole.on_cards(8, &[&world.cards(&[1])]));
    world
        .kubelet
        .start_container("whole", "main")
        .await
        .unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_container_that_also_holds_devices_of_another_class_gets_its_card() {
    let world = World::with_cards(&[8]).await;
    let asking = main(
        "a",
        json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "1024", "rdma/hca": "1"}),
    );
    let ours = asking.on(&world.card(0));
    let mut record: Value = serde_json::from_str(ours.record().unwrap()).unwrap();
    let other = json!({"name": "main", "class": "rdma", "cards": [{"id": "mlx5_0"}]});
    record["containers"].as_array_mut().unwrap().push(other);
    world.show(asking.with_record(&record.to_string()));
    let env = started(&world, "a", SLOTS, 1).await;
    expect(&env, &[("NVIDIA_VISIBLE_DEVICES", &*world.card(0))]);
    world.end().await;
}

#[tokio::test]
async fn a_container_with_another_number_of_devices_than_it_asks_for_does_not_start() {
    let world = World::with_cards(&[8, 8]).await;
    let asking = main(
        "a",
        json!({"gpushare.io/gpu": "2", "gpushare.io/gpu-mem": "1024"}),
    );
    world.show(asking.on_cards(8, &[&world.cards(&[0, 1])]));
    world.kubelet.admit("a", "main", SLOTS, 1).await;
    let refused = world.kubelet.start_container("a", "main").await;
    let message = refused.unwrap_err().message().to_owned();
    assert!(
        message.contains("holds 1 of gpushare.io/gpu") && message.contains("asks for 2"),
        "{message}"
    );
    world.end().await;
}
