//! Creating objects: identity, names, defaults.

use anyhow::{Context, Result};
use integration::objects::{node, pod};
use integration::{in_namespace, refused};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};

#[tokio::test]
async fn a_new_object_gets_a_uid_a_version_a_time_and_nothing_it_claims_itself() -> Result<()> {
    in_namespace(async |test| {
        let mut claimed = pod("a").build();
        claimed.metadata.uid = Some("mine".to_owned());
        claimed.metadata.generation = Some(7);
        let created = test.create_pod(&claimed).await?;
        assert_ne!(created.uid().context("no uid")?, "mine");
        assert!(
            created
                .resource_version()
                .context("no version")?
                .parse::<u64>()?
                > 0
        );
        assert!(created.creation_timestamp().is_some());
        assert_eq!(created.namespace().as_deref(), Some(test.namespace()));
        assert_eq!(created.metadata.generation, Some(1));
        assert_eq!(test.pods().get("a").await?, created);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_taken_name_is_refused() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let again = test
            .pods()
            .create(&PostParams::default(), &pod("a").build())
            .await;
        let refusal = refused(again)?;
        assert_eq!(
            (refusal.code, refusal.reason.as_str()),
            (409, "AlreadyExists")
        );
        assert_eq!(refusal.message, "pods \"a\" already exists");
        let details = refusal.details.context("no details")?;
        assert_eq!(
            (details.name.as_str(), details.kind.as_str()),
            ("a", "pods")
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_server_completes_a_generated_name_differently_each_time() -> Result<()> {
    in_namespace(async |test| {
        let template = pod("").generate_name("job-").build();
        let first = test.create_pod(&template).await?.name_any();
        let second = test.create_pod(&template).await?.name_any();
        assert_ne!(first, second);
        for name in [first, second] {
            assert_eq!(name.len(), "job-".len() + 5, "{name}");
            assert!(name.starts_with("job-"), "{name}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_takes_nothing() -> Result<()> {
    in_namespace(async |test| {
        let nowhere: Api<Pod> = Api::namespaced(test.client(), &test.unique("nowhere"));
        let refusal = refused(
            nowhere
                .create(&PostParams::default(), &pod("a").build())
                .await,
        )?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (404, "NotFound"));
        assert_eq!(refusal.details.context("no details")?.kind, "namespaces");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_pod_starts_pending_with_requests_from_its_limits() -> Result<()> {
    in_namespace(async |test| {
        let mut wanted = pod("a").gpu_mem(3000).limit("cpu", "1000m").build();
        let pretended = serde_json::from_value(serde_json::json!({"phase": "Running"}))?;
        wanted.status = Some(pretended);
        let created = test.create_pod(&wanted).await?;
        assert_eq!(
            created.status.context("no status")?.phase.as_deref(),
            Some("Pending")
        );
        let spec = created.spec.context("no spec")?;
        let resources = spec.containers[0]
            .resources
            .clone()
            .context("no resources")?;
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
    .await
}

#[tokio::test]
async fn a_node_keeps_the_status_it_registers_with_and_takes_no_pods_yet() -> Result<()> {
    in_namespace(async |test| {
        let name = test.unique("node");
        let wanted = node(&name)
            .card("GPU-1", 16_276)
            .card("GPU-2", 8_000)
            .build();
        let created = test.create_node(&wanted).await?;
        let status = created.status.clone().context("no status")?;
        let capacity = status.capacity.context("no capacity")?;
        assert_eq!(capacity["gpushare.io/gpu-mem"].0, "24276");
        assert_eq!(status.allocatable.context("no allocatable")?, capacity);
        assert!(created.annotations().contains_key("gpushare.io/cards"));
        let taints = created
            .spec
            .and_then(|spec| spec.taints)
            .unwrap_or_default();
        assert!(
            taints
                .iter()
                .any(|taint| taint.key == "node.kubernetes.io/not-ready")
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_dry_run_shows_the_object_and_stores_nothing() -> Result<()> {
    in_namespace(async |test| {
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let shown = test.pods().create(&params, &pod("a").build()).await?;
        assert!(shown.uid().is_some());
        assert!(test.pods().get_opt("a").await?.is_none());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn fields_that_a_kind_does_not_have_are_dropped_or_refused_on_demand() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "configmaps");
        let body = |name: &str| {
            format!(
                r#"{{"metadata": {{"name": "{name}"}}, "data": {{"k": "v"}}, "colour": "red"}}"#
            )
        };
        let kept = test.raw().post(&path, body("a")).await?;
        assert_eq!(kept.code, 201);
        assert!(kept.body.get("colour").is_none());
        let strict = test
            .raw()
            .post(&format!("{path}?fieldValidation=Strict"), body("b"))
            .await?;
        assert_eq!(strict.verdict(), (400, "BadRequest"));
        assert!(
            strict.message().contains("unknown field \"colour\""),
            "{}",
            strict.message()
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_version_on_a_new_object_is_refused() -> Result<()> {
    in_namespace(async |test| {
        let config = ConfigMap {
            metadata: ObjectMeta {
                name: Some("a".to_owned()),
                resource_version: Some("1".to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        let refusal = refused(
            test.objects::<ConfigMap>()
                .create(&PostParams::default(), &config)
                .await,
        )?;
        assert_eq!(refusal.code, 500);
        assert!(
            refusal
                .message
                .contains("resourceVersion should not be set")
        );
        Ok(())
    })
    .await
}
