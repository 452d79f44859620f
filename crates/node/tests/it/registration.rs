//! The kubelet knows every resource, even after a restart in which it forgets everything.

use std::collections::BTreeSet;

use gpushare_core::gpu::AliyunUnit;
use gpushare_testkit::{assert_contains, until};

use crate::support::{ALIYUN, HAMI, SLOTS, TENCENT, World};

#[tokio::test]
async fn all_resources_are_registered_and_want_to_be_asked_before_each_start() {
    let world = World::with_hami(&[8, 16]).await;
    assert_eq!(world.kubelet.healthy(SLOTS), 20);
    assert_eq!(world.kubelet.healthy(ALIYUN), 24);
    assert_eq!(world.kubelet.healthy(TENCENT), 200);
    assert_eq!(world.kubelet.healthy(HAMI), 8);
    let registrations = world.kubelet.registrations();
    assert_eq!(registrations.len(), world.resources().len());
    for registration in registrations {
        assert_eq!(registration.version, "v1beta1");
        assert!(registration.options.unwrap().pre_start_required);
    }
    world.end().await;
}

#[tokio::test]
async fn a_restarted_kubelet_gets_the_resources_again_and_pods_go_on() {
    let mut world = World::with_cards(&[8]).await;
    world.run("before", 2, 0).await;
    let name = world.kubelet.cdi_name("before", "main");

    world.kubelet.restart();
    world.registered().await;

    world.started("before", "main").await;
    assert_eq!(world.kubelet.cdi_name("before", "main"), name);
    world.run("after", 2, 0).await;
    world.end().await;
}

#[tokio::test]
async fn a_plugin_socket_that_somebody_deletes_is_made_again() {
    let world = World::with_cards(&[8]).await;
    world.kubelet.delete_plugin_sockets();
    let twice = 2 * world.resources().len();
    until("all resources to be registered again", async || {
        world.kubelet.registrations().len() >= twice
    })
    .await;
    world.registered().await;
    world.end().await;
}

fn registered(world: &World) -> BTreeSet<String> {
    let requests = world.kubelet.registrations().into_iter();
    requests.map(|request| request.resource_name).collect()
}

#[tokio::test]
async fn a_list_too_large_for_the_kubelet_is_not_offered_and_the_other_resources_are() {
    let gib: Vec<u64> = vec![80; 8];
    let world = World::with(&gib, |config| config.reading.aliyun = AliyunUnit::MiB);
    for (resource, devices) in [(SLOTS, 80), (TENCENT, 800)] {
        until(&format!("{resource} to be offered"), async || {
            world.kubelet.healthy(resource) == devices
        })
        .await;
    }
    assert_eq!(
        registered(&world),
        [SLOTS, TENCENT].map(str::to_owned).into()
    );
    world.end().await;
}

#[tokio::test]
async fn without_consent_nvidias_resource_is_left_to_others() {
    let world = World::with_cards(&[8]).await;
    assert!(!registered(&world).contains(HAMI));
    world.end().await;
}

#[tokio::test]
async fn the_agent_is_ready_when_it_is_registered_and_counts_what_it_does() {
    let world = World::with_running(2).await;
    let (status, _) = world.page("/readyz").await;
    assert_eq!(status, 200);
    let (_, metrics) = world.page("/metrics").await;
    for line in [
        r#"gpushare_node_container_starts_total{resource="aliyun.com/gpu-mem",outcome="started"} 1"#,
        r#"gpushare_node_registered{resource="gpushare.io/gpu"} 1"#,
        r#"gpushare_node_cards{health="healthy"} 1"#,
        "gpushare_node_container_start_seconds_count 1",
    ] {
        assert_contains(&metrics, line);
    }
    world.end().await;
}
