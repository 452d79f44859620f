//! Deleting objects: grace, finalizers, preconditions, collections.

use anyhow::{Context, Result};
use integration::objects::pod;
use integration::verdict::{ALREADY_EXISTS, CONFLICT, FORBIDDEN, INVALID, NOT_FOUND};
use integration::{Scope, in_namespace, refused, until, version_of};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Preconditions};
use serde_json::json;

async fn bound_pod(test: &Scope, name: &str) -> Result<()> {
    test.pod(name).await?;
    test.bind(name, "n1").await
}

fn grace(pod: &Pod) -> Option<i64> {
    pod.metadata.deletion_timestamp.as_ref()?;
    pod.metadata.deletion_grace_period_seconds
}

#[test]
fn a_pod_on_a_node_stays_until_its_end_is_confirmed() -> Result<()> {
    in_namespace(async |test| {
        bound_pod(test, "a").await?;
        let pods = test.pods();
        let dying = pods.delete("a").await?;
        let dying = dying.context("the answer is not the pod")?;
        assert_eq!(grace(&dying), Some(30));
        assert_eq!(grace(&pods.get("a").await?), Some(30));

        let refusal = refused(pods.create(pod("a")).await, ALREADY_EXISTS)?;
        refusal.must_say("object is being deleted");

        // A grace period is never extended, and can be shortened.
        for (asked, left) in [(60, 30), (5, 5)] {
            pods.delete_in(asked, "a").await?;
            assert_eq!(grace(&pods.get("a").await?), Some(left), "asked {asked}");
        }
        pods.delete_in(0, "a").await?;
        assert!(pods.get_opt("a").await?.is_none());
        Ok(())
    })
}

#[test]
fn watchers_see_a_pod_marked_and_then_gone() -> Result<()> {
    in_namespace(async |test| {
        bound_pod(test, "bound").await?;
        test.pod("waiting").await?;
        let mut changes = test.watch::<Pod>().from_now().await?.start().await?;
        test.pods().delete("waiting").await?;
        for expected in ["MODIFIED", "DELETED"] {
            let (kind, pod) = changes.object().await?;
            assert_eq!((kind, pod.name_any().as_str()), (expected, "waiting"));
            assert_eq!(grace(&pod), Some(0));
        }
        test.pods().delete("bound").await?;
        let (kind, pod) = changes.object().await?;
        assert_eq!((kind, grace(&pod)), ("MODIFIED", Some(30)));
        test.pods().delete_in(0, "bound").await?;
        let (kind, pod) = changes.object().await?;
        assert_eq!((kind, grace(&pod)), ("MODIFIED", Some(0)));
        let (kind, last) = changes.object().await?;
        assert_eq!(kind, "DELETED");
        let own = version_of(&pod)? < version_of(&last)?;
        assert!(own, "the deletion has a version of its own");
        Ok(())
    })
}

#[test]
fn a_pod_that_has_ended_goes_at_once() -> Result<()> {
    in_namespace(async |test| {
        bound_pod(test, "a").await?;
        let ended = json!({"status": {"phase": "Succeeded"}});
        test.pods().merge_status("a", ended).await?;
        test.pods().delete("a").await?;
        assert!(test.pods().get_opt("a").await?.is_none());
        Ok(())
    })
}

#[test]
fn a_finalizer_holds_an_object_until_it_is_removed() -> Result<()> {
    in_namespace(async |test| {
        let pods = test.pods();
        pods.create(pod("a").finalizer("x.io/hold")).await?;
        pods.delete("a").await?;
        let held = pods.get("a").await?;
        assert!(held.metadata.deletion_timestamp.is_some());
        let more = json!({"metadata": {"finalizers": ["x.io/hold", "x.io/more"]}});
        refused(pods.merge("a", more).await, INVALID)?;
        pods.free("a").await?;
        assert!(pods.get_opt("a").await?.is_none());
        Ok(())
    })
}

#[test]
fn a_deletion_can_be_bound_to_an_identity_and_a_version() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let pods = test.pods();
        let delete = async |uid: Option<String>, resource_version: Option<String>| {
            let params = DeleteParams::default().preconditions(Preconditions {
                uid,
                resource_version,
            });
            pods.api.delete("a", &params).await
        };
        let other = "11111111-1111-1111-1111-111111111111".to_owned();
        for attempt in [
            delete(Some(other), None).await,
            delete(None, Some("1".to_owned())).await,
        ] {
            refused(attempt, CONFLICT)?.must_say("in the precondition");
        }
        delete(created.uid(), created.resource_version()).await?;
        refused(pods.delete("a").await, NOT_FOUND)?;
        Ok(())
    })
}

#[test]
fn most_kinds_answer_a_deletion_with_what_was_deleted() -> Result<()> {
    in_namespace(async |test| {
        let created = test.config("a", json!({})).await?;
        let params = DeleteParams::default();
        let answer = test.configs().api.delete("a", &params).await?;
        let status = answer.right().context("the answer is not a status")?;
        let details = status.details.context("no details")?;
        let named = (details.name.as_str(), details.kind.as_str());
        assert_eq!(named, ("a", "configmaps"));
        assert_eq!(Some(details.uid), created.uid());
        Ok(())
    })
}

#[test]
fn a_collection_is_deleted_by_selector() -> Result<()> {
    in_namespace(async |test| {
        for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
            let labelled = pod(name).label("app", app);
            test.create_pod(labelled).await?;
        }
        let pods = test.pods();
        let selected = ListParams::default().labels("app=x");
        let params = DeleteParams::default();
        pods.api.delete_collection(&params, &selected).await?;
        assert_eq!(pods.names(&ListParams::default()).await?, ["c"]);
        Ok(())
    })
}

#[test]
fn a_namespace_that_is_going_takes_nothing_new() -> Result<()> {
    in_namespace(async |test| {
        let going = test.another_namespace().await?;
        let pods = test.pods_in(&going);
        // The finalizer keeps the pod until the test has looked.
        pods.create(pod("held").finalizer("x.io/hold")).await?;
        test.cluster::<Namespace>().delete(&going).await?;
        let refusal = refused(pods.create(pod("late")).await, FORBIDDEN)?;
        assert_eq!(refusal.detail("causes/0/reason"), "NamespaceTerminating");
        pods.free("held").await?;
        until("the pod is gone", async || {
            pods.delete_in(0, "held").await.ok();
            Ok(pods.get_opt("held").await?.is_none())
        })
        .await
    })
}
