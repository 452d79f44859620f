//! What a container gets, and which containers do not start.

use futures::future::join_all;
use gpushare_testkit::assert_contains;

use crate::support::pods::{pod, simple};
use crate::support::{ALIYUN, SLOTS, World, expect};

#[tokio::test]
async fn a_container_gets_the_card_of_its_record_and_the_variables_of_aliyun() {
    let world = World::with_cards(&[16, 8]).await;
    world.place("a", 3, 1).await;
    let env = world.started("a", "main").await;
    let card = world.card(1);
    expect(
        &env,
        &format!("NVIDIA_VISIBLE_DEVICES={card} GPUSHARE_CARDS={card} GPUSHARE_MEMORY_MIB=3072"),
    );
    expect(&env, "ALIYUN_COM_GPU_MEM_IDX=1 ALIYUN_COM_GPU_MEM_DEV=8");
    expect(
        &env,
        "ALIYUN_COM_GPU_MEM_POD=3 ALIYUN_COM_GPU_MEM_CONTAINER=3",
    );
    world.end().await;
}

#[tokio::test]
async fn a_container_that_asks_in_our_dialect_gets_its_card_to_the_mib() {
    let world = World::with_cards(&[8]).await;
    world.show(pod("a").app_mib("main", 1234).on(&world.card(0)));
    world.kubelet.admit("a", "main", SLOTS, 1).await;
    let env = world.started("a", "main").await;
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(0));
    assert_eq!(env["GPUSHARE_MEMORY_MIB"], "1234");
    assert!(!env.contains_key("ALIYUN_COM_GPU_MEM_IDX"));
    world.end().await;
}

#[tokio::test]
async fn equal_pods_that_start_together_get_each_the_card_of_its_own_record() {
    let world = World::with_cards(&[24, 24]).await;
    let names: Vec<String> = (0..40).map(|number| format!("p{number}")).collect();
    let card = |number: usize| number * 7 % 2;
    for (number, name) in names.iter().enumerate() {
        world.place(name, 1, card(number)).await;
    }
    let starts = names
        .iter()
        .rev()
        .map(|name| world.kubelet.start_container(name, "main"));
    for started in join_all(starts).await {
        started.unwrap();
    }
    for (number, name) in names.iter().enumerate() {
        let env = world.environment(name, "main").unwrap();
        let expected = world.card(card(number));
        assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], expected, "{name}");
    }
    let lists = world.kubelet.lists();
    assert!(lists < names.len(), "calls that come together share a List");
    world.end().await;
}

#[tokio::test]
async fn two_containers_of_a_pod_start_with_their_own_shares() {
    let world = World::with_cards(&[8]).await;
    let card = world.card(0);
    world.show(pod("a").app("one", 1).app("two", 2).on(&card));
    for (container, gib) in [("one", 1), ("two", 2)] {
        world.kubelet.admit("a", container, ALIYUN, gib).await;
    }
    for (container, gib) in [("two", "2"), ("one", "1")] {
        let env = world.started("a", container).await;
        assert_eq!(env["ALIYUN_COM_GPU_MEM_CONTAINER"], gib);
        assert_eq!(env["ALIYUN_COM_GPU_MEM_POD"], "3");
    }
    world.end().await;
}

#[tokio::test]
async fn a_pod_without_a_record_does_not_start_until_it_has_one() {
    let world = World::with_cards(&[8]).await;
    let asking = pod("a").app("main", 2);
    world.show(asking.facts());
    world.admit("a", 2).await;
    let message = world.refusal("a").await;
    assert_contains(&message, "pod default/a");
    assert_contains(&message, "no gpushare.io/allocation");
    assert!(world.environment("a", "main").is_err());
    world.show(asking.on(&world.card(0)));
    world.start("a").await;
    world.end().await;
}

#[tokio::test]
async fn a_record_copied_from_another_pod_is_refused() {
    let world = World::with_cards(&[8]).await;
    let other = world.simple("b", 2, 0);
    let forged = pod("a").app("main", 2).with_record(other.record().unwrap());
    world.show(forged);
    world.admit("a", 2).await;
    assert_contains(&world.refusal("a").await, "another pod");
    assert!(world.cdi_files().is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_record_that_would_take_the_card_past_its_size_is_refused() {
    let world = World::with_cards(&[4, 8]).await;
    for name in ["a", "b"] {
        world.place(name, 3, 0).await;
    }
    world.start("a").await;
    let message = world.refusal("b").await;
    assert_contains(&message, "1024 MiB of memory free");
    assert_contains(&message, &world.card(0));
    assert!(world.environment("b", "main").is_err());
    world.end().await;
}

#[tokio::test]
async fn a_record_for_a_card_of_another_node_is_refused() {
    let world = World::with_cards(&[8]).await;
    world.show(simple("a", 3, "GPU-elsewhere"));
    world.admit("a", 3).await;
    assert_contains(&world.refusal("a").await, "GPU-elsewhere");
    world.end().await;
}

#[tokio::test]
async fn a_record_changed_after_the_first_start_is_refused() {
    let world = World::with_cards(&[8, 8]).await;
    world.run("a", 3, 0).await;
    world.show(world.simple("a", 3, 1));
    assert_contains(&world.refusal("a").await, "was changed");
    let env = world.environment("a", "main").unwrap();
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(0));
    world.end().await;
}

#[tokio::test]
async fn a_start_waits_for_a_pod_that_the_watch_shows_late() {
    let world = World::with_cards(&[8]).await;
    world.admit("a", 3).await;
    tokio::join!(world.start("a"), async {
        tokio::task::yield_now().await;
        world.show(world.simple("a", 3, 0));
    });
    world.end().await;
}

#[tokio::test]
async fn a_request_that_cannot_be_understood_is_refused_with_its_fix() {
    let world = World::with_cards(&[8]).await;
    world.show(pod("a").app_mib("main", 0).with_record("{}"));
    world.kubelet.admit("a", "main", SLOTS, 1).await;
    assert_contains(&world.refusal("a").await, "asks for nothing");
    world.end().await;
}

#[tokio::test]
async fn the_drivers_own_spec_for_the_card_is_passed_on() {
    let world = World::with_cards(&[8]).await;
    let spec = serde_json::json!({
        "cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
        "devices": [{"name": world.card(0), "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
        "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]},
    });
    std::fs::write(world.cdi_dir().join("nvidia.json"), spec.to_string()).unwrap();
    world.place("a", 3, 0).await;
    let env = world.started("a", "main").await;
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(0));
    let ours = world.cdi_files().remove(0);
    let text = std::fs::read_to_string(ours).unwrap();
    assert_contains(&text, "/dev/nvidia0");
    world.end().await;
}
