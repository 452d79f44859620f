//! What a container gets, and which containers do not start.

use futures::future::join_all;

use crate::support::kubelet::Kubelet;
use crate::support::pods::{pod, simple};
use crate::support::{ALIYUN, SLOTS, World};

/// The refusal that the user reads in the container's state.
async fn refusal(kubelet: &Kubelet, pod: &str, container: &str) -> String {
    let status = kubelet.start_container(pod, container).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    status.message().to_owned()
}

#[tokio::test]
async fn a_container_gets_the_card_of_its_record_and_the_variables_of_aliyun() {
    let world = World::with_cards(&[16, 8]).await;
    world.show(simple("a", 3, &world.card(1)));
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    world.kubelet.start_container("a", "main").await.unwrap();
    let env = world.environment("a", "main").unwrap();
    for (name, value) in [
        ("NVIDIA_VISIBLE_DEVICES", &*world.card(1)),
        ("GPUSHARE_CARDS", &*world.card(1)),
        ("GPUSHARE_MEMORY_MIB", "3072"),
        ("ALIYUN_COM_GPU_MEM_IDX", "1"),
        ("ALIYUN_COM_GPU_MEM_POD", "3"),
        ("ALIYUN_COM_GPU_MEM_CONTAINER", "3"),
        ("ALIYUN_COM_GPU_MEM_DEV", "8"),
    ] {
        assert_eq!(env[name], value, "{name}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_container_that_asks_in_our_dialect_gets_its_card_to_the_mib() {
    let world = World::with_cards(&[8]).await;
    world.show(pod("a").app_mib("main", 1234).on(&world.card(0)));
    world.kubelet.admit("a", "main", SLOTS, 1).await;
    world.kubelet.start_container("a", "main").await.unwrap();
    let env = world.environment("a", "main").unwrap();
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(0));
    assert_eq!(env["GPUSHARE_MEMORY_MIB"], "1234");
    assert!(!env.contains_key("ALIYUN_COM_GPU_MEM_IDX"));
    world.end().await;
}

#[tokio::test]
async fn equal_pods_that_start_together_get_each_the_card_of_its_own_record() {
    let world = World::with_cards(&[24, 24]).await;
    let names: Vec<String> = (0..40).map(|number| format!("p{number}")).collect();
    let card = |number: usize| world.card(number * 7 % 2);
    for (number, name) in names.iter().enumerate() {
        world.show(simple(name, 1, &card(number)));
        world.kubelet.admit(name, "main", ALIYUN, 1).await;
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
        assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], card(number), "{name}");
    }
    let lists = world.kubelet.with_memory(|memory| memory.lists);
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
        world.kubelet.start_container("a", container).await.unwrap();
        let env = world.environment("a", container).unwrap();
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
    world.kubelet.admit("a", "main", ALIYUN, 2).await;
    let message = refusal(&world.kubelet, "a", "main").await;
    assert!(message.contains("pod default/a"), "{message}");
    assert!(message.contains("no gpushare.io/allocation"), "{message}");
    assert!(world.environment("a", "main").is_err());
    world.show(asking.on(&world.card(0)));
    world.kubelet.start_container("a", "main").await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_record_copied_from_another_pod_is_refused() {
    let world = World::with_cards(&[8]).await;
    let other = simple("b", 2, &world.card(0));
    let forged = pod("a").app("main", 2).with_record(other.record().unwrap());
    world.show(forged);
    world.kubelet.admit("a", "main", ALIYUN, 2).await;
    let message = refusal(&world.kubelet, "a", "main").await;
    assert!(message.contains("another pod"), "{message}");
    assert!(world.cdi_files().is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_record_that_would_take_the_card_past_its_size_is_refused() {
    let world = World::with_cards(&[4, 8]).await;
    for name in ["a", "b"] {
        world.show(simple(name, 3, &world.card(0)));
        world.kubelet.admit(name, "main", ALIYUN, 3).await;
    }
    world.kubelet.start_container("a", "main").await.unwrap();
    let message = refusal(&world.kubelet, "b", "main").await;
    assert!(message.contains("1024 MiB of memory free"), "{message}");
    assert!(message.contains(&world.card(0)), "{message}");
    assert!(world.environment("b", "main").is_err());
    world.end().await;
}

#[tokio::test]
async fn a_record_for_a_card_of_another_node_is_refused() {
    let world = World::with_cards(&[8]).await;
    world.show(simple("a", 3, "GPU-elsewhere"));
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    let message = refusal(&world.kubelet, "a", "main").await;
    assert!(message.contains("GPU-elsewhere"), "{message}");
    world.end().await;
}

#[tokio::test]
async fn a_record_changed_after_the_first_start_is_refused() {
    let world = World::with_cards(&[8, 8]).await;
    world.show(simple("a", 3, &world.card(0)));
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    world.kubelet.start_container("a", "main").await.unwrap();
    world.show(simple("a", 3, &world.card(1)));
    let message = refusal(&world.kubelet, "a", "main").await;
    assert!(message.contains("was changed"), "{message}");
    let env = world.environment("a", "main").unwrap();
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(0));
    world.end().await;
}

#[tokio::test]
async fn a_start_waits_for_a_pod_that_the_watch_shows_late() {
    let world = World::with_cards(&[8]).await;
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    let (started, ()) = tokio::join!(world.kubelet.start_container("a", "main"), async {
        tokio::task::yield_now().await;
        world.show(simple("a", 3, &world.card(0)));
    });
    started.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_request_that_cannot_be_understood_is_refused_with_its_fix() {
    let world = World::with_cards(&[8]).await;
    world.show(pod("a").app_mib("main", 0).with_record("{}"));
    world.kubelet.admit("a", "main", SLOTS, 1).await;
    let message = refusal(&world.kubelet, "a", "main").await;
    assert!(message.contains("asks for nothing"), "{message}");
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
    world.show(simple("a", 3, &world.card(0)));
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    world.kubelet.start_container("a", "main").await.unwrap();
    let env = world.environment("a", "main").unwrap();
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(0));
    let ours = world.cdi_files().remove(0);
    let text = std::fs::read_to_string(ours).unwrap();
    assert!(text.contains("/dev/nvidia0"), "{text}");
    world.end().await;
}
