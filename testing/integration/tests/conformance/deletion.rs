//! Deleting objects: grace, finalizers, preconditions, collections.

use anyhow::{Context, Result};
use integration::objects::pod;
use integration::{Scope, in_namespace, refused};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

async fn bound_pod(test: &Scope, name: &str) -> Result<()> {
    test.pod(name).await?;
    let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}});
    let path = format!("{}/{name}/binding", test.path("/api/v1", "pods"));
    let answer = test.raw().post(&path, binding.to_string()).await?;
    anyhow::ensure!(answer.code == 201, "cannot bind {name}: {}", answer.body);
    Ok(())
}

fn grace(pod: &Pod) -> Option<i64> {
    pod.metadata.deletion_timestamp.as_ref()?;
    pod.metadata.deletion_grace_period_seconds
}

#[tokio::test]
async fn a_pod_on_a_node_stays_until_its_end_is_confirmed() -> Result<()> {
    in_namespace(async |test| {
        bound_pod(test, "a").await?;
        let pods = test.pods();
        let dying = pods.delete("a", &DeleteParams::default()).await?;
        let dying = dying.left().context("the answer is not the pod")?;
        assert_eq!(grace(&dying), Some(30));
        assert_eq!(grace(&pods.get("a").await?), Some(30));

        let refusal = refused(pods.create(&PostParams::default(), &pod("a").build()).await)?;
        assert_eq!(refusal.reason, "AlreadyExists");
        assert!(
            refusal.message.contains("object is being deleted"),
            "{}",
            refusal.message
        );

        pods.delete("a", &DeleteParams::default().grace_period(60))
            .await?;
        assert_eq!(
            grace(&pods.get("a").await?),
            Some(30),
            "a grace period is never extended"
        );
        pods.delete("a", &DeleteParams::default().grace_period(5))
            .await?;
        assert_eq!(
            grace(&pods.get("a").await?),
            Some(5),
            "a grace period can be shortened"
        );

        pods.delete("a", &DeleteParams::default().grace_period(0))
            .await?;
        assert!(pods.get_opt("a").await?.is_none());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn watchers_see_a_pod_marked_and_then_gone() -> Result<()> {
    in_namespace(async |test| {
        bound_pod(test, "bound").await?;
        test.pod("waiting").await?;
        let start = test.pods().list(&ListParams::default()).await?;
        let version = start.metadata.resource_version.context("no version")?;
        let mut changes = test.watch::<Pod>().after(&version).start().await?;
        test.pods()
            .delete("waiting", &DeleteParams::default())
            .await?;
        for expected in ["MODIFIED", "DELETED"] {
            let (kind, pod) = changes.object().await?;
            assert_eq!((kind, pod.name_any().as_str()), (expected, "waiting"));
            assert_eq!(grace(&pod), Some(0));
        }
        test.pods()
            .delete("bound", &DeleteParams::default())
            .await?;
        let (kind, pod) = changes.object().await?;
        assert_eq!((kind, grace(&pod)), ("MODIFIED", Some(30)));
        test.pods()
            .delete("bound", &DeleteParams::default().grace_period(0))
            .await?;
        let (kind, pod) = changes.object().await?;
        assert_eq!((kind, grace(&pod)), ("MODIFIED", Some(0)));
        let (kind, last) = changes.object().await?;
        assert_eq!(kind, "DELETED");
        let versions = [pod.resource_version(), last.resource_version()].map(|version| {
            version
                .and_then(|version| version.parse::<u64>().ok())
                .unwrap_or_default()
        });
        assert!(
            versions[0] < versions[1],
            "the deletion has a version of its own"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_pod_that_has_ended_goes_at_once() -> Result<()> {
    in_namespace(async |test| {
        bound_pod(test, "a").await?;
        let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        test.pods()
            .patch_status("a", &PatchParams::default(), &ended)
            .await?;
        test.pods().delete("a", &DeleteParams::default()).await?;
        assert!(test.pods().get_opt("a").await?.is_none());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_removed() -> Result<()> {
    in_namespace(async |test| {
        test.create_pod(&pod("a").finalizer("x.io/hold").build())
            .await?;
        let pods = test.pods();
        pods.delete("a", &DeleteParams::default()).await?;
        let held = pods.get("a").await?;
        assert!(held.metadata.deletion_timestamp.is_some());
        let more = Patch::Merge(json!({"metadata": {"finalizers": ["x.io/hold", "x.io/more"]}}));
        let refusal = refused(pods.patch("a", &PatchParams::default(), &more).await)?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        pods.patch("a", &PatchParams::default(), &free).await?;
        assert!(pods.get_opt("a").await?.is_none());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_deletion_can_be_bound_to_an_identity_and_a_version() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let with = |uid: Option<String>, resource_version: Option<String>| {
            DeleteParams::default().preconditions(Preconditions {
                uid,
                resource_version,
            })
        };
        let other = with(
            Some("11111111-1111-1111-1111-111111111111".to_owned()),
            None,
        );
        let stale = with(None, Some("1".to_owned()));
        for params in [other, stale] {
            let refusal = refused(test.pods().delete("a", &params).await)?;
            assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
            assert!(
                refusal.message.contains("in the precondition"),
                "{}",
                refusal.message
            );
        }
        let exact = with(created.uid(), created.resource_version());
        test.pods().delete("a", &exact).await?;
        let refusal = refused(test.pods().delete("a", &DeleteParams::default()).await)?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (404, "NotFound"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn most_kinds_answer_a_deletion_with_what_was_deleted() -> Result<()> {
    in_namespace(async |test| {
        let config: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}}))?;
        let configs = test.objects::<ConfigMap>();
        let created = configs.create(&PostParams::default(), &config).await?;
        let answer = configs.delete("a", &DeleteParams::default()).await?;
        let status = answer.right().context("the answer is not a status")?;
        let details = status.details.context("no details")?;
        assert_eq!(
            (details.name.as_str(), details.kind.as_str()),
            ("a", "configmaps")
        );
        assert_eq!(Some(details.uid), created.uid());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() -> Result<()> {
    in_namespace(async |test| {
        for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
            test.create_pod(&pod(name).label("app", app).build())
                .await?;
        }
        let selected = ListParams::default().labels("app=x");
        test.pods()
            .delete_collection(&DeleteParams::default(), &selected)
            .await?;
        let left = test.pods().list(&ListParams::default()).await?;
        assert_eq!(
            left.items
                .iter()
                .map(ResourceExt::name_any)
                .collect::<Vec<_>>(),
            ["c"]
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_namespace_that_is_going_takes_nothing_new() -> Result<()> {
    in_namespace(async |test| {
        let going = test.another_namespace().await?;
        let pods: kube::Api<Pod> = kube::Api::namespaced(test.client(), &going);
        // The finalizer keeps the pod until the test has looked.
        let held = pod("held").finalizer("x.io/hold").build();
        pods.create(&PostParams::default(), &held).await?;
        let namespaces = test.cluster::<k8s_openapi::api::core::v1::Namespace>();
        namespaces.delete(&going, &DeleteParams::default()).await?;
        let refusal = refused(
            pods.create(&PostParams::default(), &pod("late").build())
                .await,
        )?;
        assert_eq!((refusal.code, refusal.reason.as_str()), (403, "Forbidden"));
        let cause = &refusal.details.context("no details")?.causes[0];
        assert_eq!(cause.reason, "NamespaceTerminating");
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        pods.patch("held", &PatchParams::default(), &free).await?;
        integration::wait_for("the pod is gone", integration::DEADLINE, async || {
            pods.delete("held", &DeleteParams::default().grace_period(0))
                .await
                .ok();
            Ok(pods.get_opt("held").await?.is_none().then_some(()))
        })
        .await
    })
    .await
}
