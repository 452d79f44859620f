//! The extender's books agree with the API server's objects.

use anyhow::{Context, Result};
use futures::future::try_join_all;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use integration::objects::{node, pod};
use integration::{Scope, in_namespace};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::running::Running;

const GIB: u64 = 1024;

async fn node_with_cards(test: &Scope, gib: &[u64]) -> Result<String> {
    let name = test.unique("node");
    let mut built = node(&name);
    for (index, size) in gib.iter().enumerate() {
        built = built.card(&format!("GPU-{name}-{index}"), size * GIB);
    }
    test.create_node(&built.build()).await?;
    Ok(name)
}

async fn pod_of(test: &Scope, name: &str, gib: u64) -> Result<Pod> {
    test.create_pod(
        &pod(name)
            .limit("aliyun.com/gpu-mem", &gib.to_string())
            .build(),
    )
    .await
}

fn facts(pod: &Pod) -> Result<PodFacts> {
    let slim: slim::Pod = serde_json::from_value(serde_json::to_value(pod)?)?;
    Ok(PodFacts::new(&slim, &gpu::dialects(AliyunUnit::GiB)))
}

#[tokio::test]
async fn a_bind_gives_node_and_believable_record_in_one_change() -> Result<()> {
    in_namespace(async |test| {
        let node = node_with_cards(test, &[8, 8]).await?;
        let extender = Running::start(test, &node).await?;
        let created = pod_of(test, "a", 3).await?;
        let version = created.resource_version().context("no version")?;
        let mut changes = test.watch::<Pod>().after(&version).start().await?;

        assert_eq!(extender.bind(&created, &node).await?, "");
        let (change, bound) = changes.object().await?;
        assert_eq!(change, "MODIFIED");
        assert_eq!(
            bound.spec.as_ref().and_then(|spec| spec.node_name.as_ref()),
            Some(&node)
        );
        let booking = facts(&bound)?
            .bound(&gpu::classes())
            .context("no record")??;
        assert_eq!(booking.node.as_str(), node);
        assert_eq!(bound.annotations()["ALIYUN_COM_GPU_MEM_POD"], "3");
        assert_eq!(extender.booked(&node).await?, [3, 0]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn of_many_binds_at_once_exactly_those_succeed_that_fit() -> Result<()> {
    in_namespace(async |test| {
        let node = node_with_cards(test, &[8, 8]).await?;
        let extender = Running::start(test, &node).await?;
        let names: Vec<String> = (0..12).map(|number| format!("p{number}")).collect();
        let pods = try_join_all(names.iter().map(|name| pod_of(test, name, 2))).await?;
        let answers = try_join_all(pods.iter().map(|pod| extender.bind(pod, &node))).await?;
        assert_eq!(answers.iter().filter(|error| error.is_empty()).count(), 8);
        assert!(
            answers
                .iter()
                .all(|error| error.is_empty() || error.contains("no card has"))
        );
        extender.until_booked(&node, &[8, 8]).await
    })
    .await
}

#[tokio::test]
async fn a_new_extender_reads_the_same_books_from_the_api_server_alone() -> Result<()> {
    in_namespace(async |test| {
        let node = node_with_cards(test, &[8, 8]).await?;
        let first = Running::start(test, &node).await?;
        for (name, gib) in [("a", 5), ("b", 4), ("c", 3)] {
            let created = pod_of(test, name, gib).await?;
            assert_eq!(first.bind(&created, &node).await?, "");
        }
        let before = first.booked(&node).await?;
        drop(first);
        let second = Running::start(test, &node).await?;
        second.until_booked(&node, &before).await?;

        let late = pod_of(test, "late", 5).await?;
        let reason = second.refusal(&late, &node).await?.context("it passed")?;
        assert!(
            reason.contains("no card has 5120 MiB of memory free"),
            "{reason}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_card_is_free_when_the_pod_has_ended_and_not_when_its_deletion_begins() -> Result<()> {
    in_namespace(async |test| {
        let node = node_with_cards(test, &[8]).await?;
        let extender = Running::start(test, &node).await?;
        for name in ["ends", "goes"] {
            let created = pod_of(test, name, 4).await?;
            assert_eq!(extender.bind(&created, &node).await?, "");
        }
        extender.until_booked(&node, &[8]).await?;
        test.pods().delete("goes", &DeleteParams::default()).await?;
        let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        test.pods()
            .patch_status("ends", &PatchParams::default(), &ended)
            .await?;
        // The deletion came first: once the ended pod is freed, the extender has seen the deletion and keeps that
        // booking.
        extender.until_booked(&node, &[4]).await?;
        let now = DeleteParams::default().grace_period(0);
        test.pods().delete("goes", &now).await?;
        extender.until_booked(&node, &[0]).await
    })
    .await
}

#[tokio::test]
async fn a_pod_replaced_under_the_same_name_is_not_bound_for_the_old_one() -> Result<()> {
    in_namespace(async |test| {
        let node = node_with_cards(test, &[8]).await?;
        let extender = Running::start(test, &node).await?;
        let old = pod_of(test, "a", 3).await?;
        test.pods()
            .delete("a", &DeleteParams::default().grace_period(0))
            .await?;
        pod_of(test, "a", 3).await?;
        let error = extender.bind(&old, &node).await?;
        assert!(error.contains("does not exist any more"), "{error}");
        extender.until_booked(&node, &[0]).await
    })
    .await
}

#[tokio::test]
async fn nothing_is_bound_to_a_node_that_does_not_exist() -> Result<()> {
    in_namespace(async |test| {
        let node = node_with_cards(test, &[8]).await?;
        let extender = Running::start(test, &node).await?;
        let created = pod_of(test, "a", 3).await?;
        let error = extender.bind(&created, "no-such-node").await?;
        assert!(
            error.contains("node no-such-node does not exist"),
            "{error}"
        );
        let now = test.pods().get("a").await?;
        assert_eq!(now.spec.and_then(|spec| spec.node_name), None);
        Ok(())
    })
    .await
}
