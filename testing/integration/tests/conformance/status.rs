//! The status subresource: each side changes only its own part.

use anyhow::{Context, Result};
use integration::objects::phase_of;
use integration::verdict::CONFLICT;
use integration::{in_namespace, refused};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;

#[test]
fn a_write_to_the_pod_leaves_its_status_alone() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let patch = json!({"metadata": {"labels": {"seen": "yes"}}, "status": {"phase": "Failed"}});
        let patched = test.pods().merge("a", patch).await?;
        assert_eq!(patched.labels()["seen"], "yes");
        assert_eq!(phase_of(&patched), Some("Pending"));
        Ok(())
    })
}

#[test]
fn a_write_to_the_status_leaves_the_spec_alone() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let patch = json!({
            "spec": {"nodeName": "forged", "schedulerName": "other"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let patched = test.pods().strategic_status("a", patch).await?;
        assert_eq!(phase_of(&patched), Some("Running"));
        assert_eq!(patched.spec, created.spec);
        assert_eq!(patched.metadata.generation, created.metadata.generation);
        let status = patched.status.context("no status")?;
        assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
        Ok(())
    })
}

#[test]
fn a_node_status_is_written_only_through_its_subresource() -> Result<()> {
    in_namespace(async |test| {
        let name = test.node("x.io/slots", "4").await?;
        let status = |slots: &str| json!({"capacity": {"x.io/slots": slots}});
        let slots = |node: &Node| {
            let capacity = node.status.as_ref()?.capacity.as_ref()?;
            Some(capacity.get("x.io/slots")?.0.clone())
        };
        let main = json!({"status": status("1"), "metadata": {"labels": {"m": "1"}}});
        let node = test.nodes().merge(&name, main).await?;
        assert_eq!(slots(&node).as_deref(), Some("4"));
        let patch = json!({"status": status("20000"), "spec": {"unschedulable": true}});
        let node = test.nodes().merge_status(&name, patch).await?;
        assert_eq!(slots(&node).as_deref(), Some("20k"));
        assert_eq!(node.labels()["m"], "1");
        assert_eq!(node.spec.context("no spec")?.unschedulable, None);
        Ok(())
    })
}

#[test]
fn a_stale_status_is_refused_too() -> Result<()> {
    in_namespace(async |test| {
        let stale = test.pod("a").await?;
        test.pods().label("a", "x", Some("y")).await?;
        let params = PostParams::default();
        let late = test.pods().api.replace_status("a", &params, &stale).await;
        refused(late, CONFLICT)?;
        Ok(())
    })
}
