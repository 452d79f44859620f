//! Every shape of request: several cards, whole cards, limits, several containers, every dialect.

use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

use crate::support::pods::{Pod, pod};
use crate::support::{ALIYUN, Environment, HAMI, SLOTS, TENCENT, World, expect};

/// Runs a pod on these cards of 8 GiB. Its container `main` has these limits, for which the kubelet allocates so many
/// devices of a resource. Returns the container's environment.
async fn run(
    world: &World,
    name: &str,
    limits: Value,
    cards: &[String],
    (resource, devices): (&str, u64),
) -> Environment {
    world.show(main(name, limits).on_cards(8, &[cards]));
    world.kubelet.admit(name, "main", resource, devices).await;
    world.started(name, "main").await
}

fn main(name: &str, limits: Value) -> Pod {
    pod(name).asking("main", limits)
}

#[tokio::test]
async fn four_cards_are_all_seen_with_the_same_share_of_each() {
    let world = World::with_cards(&[8, 8, 8, 8]).await;
    let cards = world.cards(&[2, 0, 3, 1]);
    let limits = json!({"gpushare.io/gpu": "4", "gpushare.io/gpu-mem": "3072", "gpushare.io/gpu-core": "30"});
    let env = run(&world, "a", limits, &cards, (SLOTS, 4)).await;
    let all = cards.join(",");
    let share = "GPUSHARE_MEMORY_MIB=3072 GPUSHARE_CORE_PERCENT=30";
    expect(
        &env,
        &format!("NVIDIA_VISIBLE_DEVICES={all} GPUSHARE_CARDS={all} {share}"),
    );
    world.end().await;
}

#[tokio::test]
async fn whole_cards_of_different_sizes_are_seen_each_with_its_own_memory() {
    let world = World::with_cards(&[8, 16]).await;
    let cards = world.cards(&[0, 1]);
    let limits = json!({"gpushare.io/gpu": "2"});
    let env = run(&world, "a", limits, &cards, (SLOTS, 2)).await;
    let both = cards.join(",");
    let shares = "GPUSHARE_MEMORY_MIB=8192,16384 GPUSHARE_CORE_PERCENT=100";
    expect(&env, &format!("NVIDIA_VISIBLE_DEVICES={both} {shares}"));
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
    let limits = json!({"gpushare.io/gpu": "2", "gpushare.io/gpu-mem": "1024"});
    run(&world, "a", limits, &world.cards(&[2, 0]), (SLOTS, 2)).await;
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
    let limits = json!({"aliyun.com/gpu-mem": "3", "aliyun.com/gpu-count": "2"});
    let env = run(&world, "a", limits, &cards, (ALIYUN, 3)).await;
    let both = cards.join(",");
    expect(
        &env,
        &format!("NVIDIA_VISIBLE_DEVICES={both} GPUSHARE_MEMORY_MIB=3072"),
    );
    expect(
        &env,
        "ALIYUN_COM_GPU_MEM_IDX=1,2 ALIYUN_COM_GPU_MEM_CONTAINER=3 ALIYUN_COM_GPU_MEM_DEV=8",
    );
    world.end().await;
}

#[tokio::test]
async fn tencents_share_whole_card_and_whole_card_with_a_memory_limit_start() {
    let world = World::with_cards(&[8, 8, 8, 8]).await;
    let share = json!({"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "10"});
    let whole = json!({"tencent.com/vcuda-core": "200"});
    let limited = json!({"tencent.com/vcuda-core": "100", "tencent.com/vcuda-memory": "4"});
    for (name, limits, cards, devices, memory, core) in [
        ("share", share, &[0][..], 30, "2560", "30"),
        ("whole", whole, &[2, 1], 200, "8192", "100"),
        ("limited", limited, &[3], 100, "1024", "100"),
    ] {
        let cards = world.cards(cards);
        let env = run(&world, name, limits, &cards, (TENCENT, devices)).await;
        let share = format!("GPUSHARE_MEMORY_MIB={memory} GPUSHARE_CORE_PERCENT={core}");
        expect(
            &env,
            &format!("NVIDIA_VISIBLE_DEVICES={} {share}", cards.join(",")),
        );
    }
    world.end().await;
}

#[tokio::test]
async fn hamis_containers_get_the_variables_that_its_library_reads() {
    let world = World::with_hami(&[8, 8]).await;
    let cards = world.cards(&[1, 0]);
    let limits =
        json!({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"});
    let env = run(&world, "a", limits, &cards, (HAMI, 2)).await;
    expect(&env, &format!("NVIDIA_VISIBLE_DEVICES={}", cards.join(",")));
    expect(
        &env,
        "CUDA_DEVICE_MEMORY_LIMIT_0=3000m CUDA_DEVICE_MEMORY_LIMIT_1=3000m CUDA_DEVICE_SM_LIMIT=30",
    );

    let half = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"});
    let env = run(&world, "half", half, &world.cards(&[0]), (HAMI, 1)).await;
    expect(
        &env,
        "CUDA_DEVICE_MEMORY_LIMIT_0=4096m CUDA_DEVICE_SM_LIMIT=0",
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
        let env = world.started("a", container).await;
        let card = world.card(card);
        expect(
            &env,
            &format!("NVIDIA_VISIBLE_DEVICES={card} GPUSHARE_MEMORY_MIB={mib}"),
        );
    }
    world.end().await;
}

#[tokio::test]
async fn a_record_of_a_whole_card_beside_a_share_is_refused() {
    let world = World::with_cards(&[8, 8]).await;
    let share = json!({"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "10"});
    run(&world, "share", share, &world.cards(&[0]), (TENCENT, 30)).await;

    let whole = main("whole", json!({"gpushare.io/gpu": "1"}));
    world.show(whole.on_cards(8, &[&world.cards(&[0])]));
    world.kubelet.admit("whole", "main", SLOTS, 1).await;
    assert_contains(&world.refusal("whole").await, "has 5632 MiB of memory free");
    assert!(world.environment("whole", "main").is_err());

    world.show(whole.on_cards(8, &[&world.cards(&[1])]));
    world.start("whole").await;
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
    world.kubelet.admit("a", "main", SLOTS, 1).await;
    let env = world.started("a", "main").await;
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(0));
    world.end().await;
}

#[tokio::test]
async fn a_container_with_another_number_of_devices_than_it_asks_for_does_not_start() {
    let world = World::with_cards(&[8, 8]).await;
    let limits = json!({"gpushare.io/gpu": "2", "gpushare.io/gpu-mem": "1024"});
    world.show(main("a", limits).on_cards(8, &[&world.cards(&[0, 1])]));
    world.kubelet.admit("a", "main", SLOTS, 1).await;
    let message = world.refusal("a").await;
    assert_contains(&message, "holds 1 of gpushare.io/gpu");
    assert_contains(&message, "asks for 2");
    world.end().await;
}
