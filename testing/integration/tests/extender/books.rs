//! The extender's books agree with the API server's objects.

use anyhow::{Context, Result};
use futures::future::try_join_all;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use integration::objects::node_of;
use integration::{in_namespace, version_of};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use crate::running::{Running, pod_of};

fn facts(pod: &Pod) -> Result<PodFacts> {
    let slim: slim::Pod = serde_json::from_value(serde_json::to_value(pod)?)?;
    Ok(PodFacts::new(&slim, &gpu::dialects(AliyunUnit::GiB)))
}

#[test]
fn a_bind_gives_node_and_believable_record_in_one_change() -> Result<()> {
    in_namespace(async |test| {
        let extender = Running::with_cards(test, &[8, 8]).await?;
        let node = extender.node.as_str();
        let created = pod_of(test, "a", 3).await?;
        let version = version_of(&created)?;
        let mut changes = test.watch::<Pod>().after(version).start().await?;

        assert_eq!(extender.bind(&created, node).await?, "");
        let (change, bound) = changes.object().await?;
        assert_eq!(change, "MODIFIED");
        assert_eq!(node_of(&bound), Some(node));
        let record = facts(&bound)?.bound(&gpu::classes());
        let booking = record.context("no record")??;
        assert_eq!(booking.node.as_str(), node);
        assert_eq!(bound.annotations()["ALIYUN_COM_GPU_MEM_POD"], "3");
        assert_eq!(extender.booked().await?, [3, 0]);
        Ok(())
    })
}

#[test]
fn of_many_binds_at_once_exactly_those_succeed_that_fit() -> Result<()> {
    in_namespace(async |test| {
        let extender = Running::with_cards(test, &[8, 8]).await?;
        let names: Vec<String> = (0..12).map(|number| format!("p{number}")).collect();
        let pods = try_join_all(names.iter().map(|name| pod_of(test, name, 2))).await?;
        let binds = pods.iter().map(|pod| extender.bind(pod, &extender.node));
        let mut answers = try_join_all(binds).await?;
        answers.retain(|error| !error.is_empty());
        assert_eq!(answers.len(), 12 - 8);
        let mut errors = answers.iter();
        assert!(errors.all(|error| error.contains("no card has")));
        extender.until_booked(&[8, 8]).await
    })
}

#[test]
fn a_new_extender_reads_the_same_books_from_the_api_server_alone() -> Result<()> {
    in_namespace(async |test| {
        let first = Running::with_cards(test, &[8, 8]).await?;
        for (name, gib) in [("a", 5), ("b", 4), ("c", 3)] {
            first.bind_new(test, name, gib).await?;
        }
        let before = first.booked().await?;
        let node = first.node.clone();
        drop(first);
        let second = Running::start(test, node).await?;
        second.until_booked(&before).await?;

        let late = pod_of(test, "late", 5).await?;
        let reason = second.refusal(&late).await?.context("it passed")?;
        let expected = "no card has 5120 MiB of memory free";
        assert!(reason.contains(expected), "{reason}");
        Ok(())
    })
}

#[test]
fn a_card_is_free_when_the_pod_has_ended_and_not_when_its_deletion_begins() -> Result<()> {
    in_namespace(async |test| {
        let extender = Running::with_cards(test, &[8]).await?;
        extender.bind_new(test, "ends", 4).await?;
        extender.bind_new(test, "goes", 4).await?;
        extender.until_booked(&[8]).await?;
        test.pods().delete("goes").await?;
        let ended = json!({"status": {"phase": "Succeeded"}});
        test.pods().merge_status("ends", ended).await?;
        // The deletion came first: once the ended pod is freed, the extender has seen the deletion and keeps that
        // booking.
        extender.until_booked(&[4]).await?;
        test.pods().delete_in(0, "goes").await?;
        extender.until_booked(&[0]).await
    })
}

#[test]
fn a_pod_replaced_under_the_same_name_is_not_bound_for_the_old_one() -> Result<()> {
    in_namespace(async |test| {
        let extender = Running::with_cards(test, &[8]).await?;
        let old = pod_of(test, "a", 3).await?;
        test.pods().delete_in(0, "a").await?;
        pod_of(test, "a", 3).await?;
        let error = extender.bind(&old, &extender.node).await?;
        assert!(error.contains("no longer exists"), "{error}");
        extender.until_booked(&[0]).await
    })
}

#[test]
fn nothing_is_bound_to_a_node_that_does_not_exist() -> Result<()> {
    in_namespace(async |test| {
        let extender = Running::with_cards(test, &[8]).await?;
        let created = pod_of(test, "a", 3).await?;
        let error = extender.bind(&created, "no-such-node").await?;
        let expected = "node no-such-node does not exist";
        assert!(error.contains(expected), "{error}");
        assert_eq!(node_of(&test.pods().get("a").await?), None);
        Ok(())
    })
}
