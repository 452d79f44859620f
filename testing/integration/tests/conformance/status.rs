//! The status subresource: each side changes only its own part.

use anyhow::{Context, Result};
use integration::{in_namespace, objects, refused};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

#[tokio::test]
async fn a_write_to_the_pod_leaves_its_status_alone() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let patch = Patch::Merge(json!({
            "metadata": {"labels": {"seen": "yes"}},
            "status": {"phase": "Failed"},
        }));
        let patched = test
            .pods()
            .patch("a", &PatchParams::default(), &patch)
            .await?;
        assert_eq!(patched.labels()["seen"], "yes");
        assert_eq!(
            patched.status.context("no status")?.phase.as_deref(),
            Some("Pending")
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_write_to_the_status_leaves_the_spec_alone() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let patch = Patch::Strategic(json!({
            "spec": {"nodeName": "forged", "schedulerName": "other"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        let patched = test
            .pods()
            .patch_status("a", &PatchParams::default(), &patch)
            .await?;
        assert_eq!(patched.spec, created.spec);
        assert_eq!(patched.metadata.generation, created.metadata.generation);
        let status = patched.status.context("no status")?;
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_node_status_is_written_only_through_its_subresource() -> Result<()> {
    in_namespace(async |test| {
        let name = test.unique("node");
        test.create_node(&objects::node(&name).capacity("x.io/slots", "4").build())
            .await?;
        let params = PatchParams::default();
        let capacity = |slots: &str| json!({"capacity": {"x.io/slots": slots}});
        let main =
            Patch::Merge(json!({"status": capacity("1"), "metadata": {"labels": {"m": "1"}}}));
        let node = test.nodes().patch(&name, &params, &main).await?;
        let slots = |node: &k8s_openapi::api::core::v1::Node| {
            let capacity = node.status.as_ref()?.capacity.as_ref()?;
            capacity
                .get("x.io/slots")
                .map(|quantity| quantity.0.clone())
        };
        assert_eq!(slots(&node).as_deref(), Some("4"));
        let status =
            Patch::Merge(json!({"status": capacity("20000"), "spec": {"unschedulable": true}}));
        let node = test.nodes().patch_status(&name, &params, &status).await?;
        assert_eq!(slots(&node).as_deref(), Some("20k"));
        assert_eq!(node.spec.context("no spec")?.unschedulable, None);
        assert_eq!(node.metadata.labels.context("no labels")?["m"], "1");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_stale_status_is_refused_too() -> Result<()> {
    in_namespace(async |test| {
        let stale = test.pod("a").await?;
        let patch = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
        test.pods()
            .patch("a", &PatchParams::default(), &patch)
            .await?;
        let refusal = refused(
            test.pods()
                .replace_status("a", &PostParams::default(), &stale)
                .await,
        )?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
        Ok(())
    })
    .await
}
