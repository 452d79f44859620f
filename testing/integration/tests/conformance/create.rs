//! Creating objects: identity, names, defaults.

use anyhow::{Context, Result};
use integration::objects::{node_with_cards, phase_of, pod};
use integration::verdict::{ALREADY_EXISTS, BAD_REQUEST, CREATED, NOT_FOUND, UNFORESEEN};
use integration::{in_namespace, refused, version_of};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;

#[test]
fn a_new_object_gets_a_uid_a_version_a_time_and_nothing_it_claims_itself() -> Result<()> {
    in_namespace(async |test| {
        let mut claimed = pod("a").build();
        claimed.metadata.uid = Some("mine".to_owned());
        claimed.metadata.generation = Some(7);
        let created = test.create_pod(claimed).await?;
        assert_ne!(created.uid().context("no uid")?, "mine");
        assert!(version_of(&created)? > 0);
        assert!(created.creation_timestamp().is_some());
        assert_eq!(created.namespace().as_deref(), Some(test.namespace()));
        assert_eq!(created.metadata.generation, Some(1));
        assert_eq!(test.pods().get("a").await?, created);
        Ok(())
    })
}

#[test]
fn a_taken_name_is_refused() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let refusal = refused(test.pods().create(pod("a")).await, ALREADY_EXISTS)?;
        assert_eq!(refusal.message(), "pods \"a\" already exists");
        let named = (refusal.detail("name"), refusal.detail("kind"));
        assert_eq!(named, ("a", "pods"));
        Ok(())
    })
}

#[test]
fn the_server_completes_a_generated_name_differently_each_time() -> Result<()> {
    in_namespace(async |test| {
        let template = pod("").generate_name("job-").build();
        let first = test.create_pod(template.clone()).await?.name_any();
        let second = test.create_pod(template).await?.name_any();
        assert_ne!(first, second);
        for name in [first, second] {
            assert_eq!(name.len(), "job-".len() + 5, "{name}");
            assert!(name.starts_with("job-"), "{name}");
        }
        Ok(())
    })
}

#[test]
fn a_namespace_that_does_not_exist_takes_nothing() -> Result<()> {
    in_namespace(async |test| {
        let nowhere = test.pods_in(&test.unique("nowhere"));
        let refusal = refused(nowhere.create(pod("a")).await, NOT_FOUND)?;
        assert_eq!(refusal.detail("kind"), "namespaces");
        Ok(())
    })
}

#[test]
fn a_pod_starts_pending_with_requests_from_its_limits() -> Result<()> {
    in_namespace(async |test| {
        let mut wanted = pod("a").gpu_mem(3000).limit("cpu", "1000m").build();
        wanted.status = serde_json::from_value(json!({"phase": "Running"}))?;
        let created = test.create_pod(wanted).await?;
        assert_eq!(phase_of(&created), Some("Pending"));
        let spec = created.spec.context("no spec")?;
        let resources = spec.containers[0].resources.clone();
        let resources = resources.context("no resources")?;
        assert_eq!(resources.requests, resources.limits);
        let limits = resources.limits.context("no limits")?;
        let amount = |name: &str| limits.get(name).map(|quantity| quantity.0.as_str());
        // Quantities come back in the server's own spelling.
        assert_eq!(amount("gpushare.io/gpu-mem"), Some("3k"));
        assert_eq!(amount("cpu"), Some("1"));
        assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
        assert_eq!(spec.termination_grace_period_seconds, Some(30));
        assert_eq!(spec.priority, Some(0));
        assert_eq!(spec.service_account_name.as_deref(), Some("default"));
        Ok(())
    })
}

#[test]
fn a_node_keeps_the_status_it_registers_with_and_takes_no_pods_yet() -> Result<()> {
    in_namespace(async |test| {
        let wanted = node_with_cards(&test.unique("node"), &[16_276, 8_000]);
        let created = test.create_node(wanted).await?;
        let status = created.status.clone().context("no status")?;
        let capacity = status.capacity.context("no capacity")?;
        assert_eq!(capacity["gpushare.io/gpu-mem"].0, "24276");
        assert_eq!(status.allocatable.context("no allocatable")?, capacity);
        assert!(created.annotations().contains_key("gpushare.io/cards"));
        let taints = created.spec.and_then(|spec| spec.taints);
        let mut taints = taints.context("no taints")?.into_iter();
        assert!(taints.any(|taint| taint.key == "node.kubernetes.io/not-ready"));
        Ok(())
    })
}

#[test]
fn a_dry_run_shows_the_object_and_stores_nothing() -> Result<()> {
    in_namespace(async |test| {
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let pods = test.pods();
        let shown = pods.api.create(&params, &pod("a").build()).await?;
        assert!(shown.uid().is_some());
        assert!(pods.get_opt("a").await?.is_none());
        Ok(())
    })
}

#[test]
fn fields_that_a_kind_does_not_have_are_dropped_or_refused_on_demand() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "configmaps");
        let body = |name: &str| {
            json!({"metadata": {"name": name}, "data": {"k": "v"}, "colour": "red"}).to_string()
        };
        let kept = test.raw().post(&path, body("a")).await?;
        kept.must_be(CREATED);
        assert!(kept.body.get("colour").is_none());
        let path = format!("{path}?fieldValidation=Strict");
        let strict = test.raw().post(&path, body("b")).await?;
        strict.must_be(BAD_REQUEST);
        strict.must_say("unknown field \"colour\"");
        Ok(())
    })
}

#[test]
fn a_version_on_a_new_object_is_refused() -> Result<()> {
    in_namespace(async |test| {
        let config = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
        let config: ConfigMap = serde_json::from_value(config)?;
        let refusal = refused(test.configs().create(config).await, UNFORESEEN)?;
        refusal.must_say("resourceVersion should not be set");
        Ok(())
    })
}
