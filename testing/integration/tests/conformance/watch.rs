//! Watches: no event is lost or repeated, and the server says so when it cannot guarantee that.

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use integration::objects::pod;
use integration::verdict::{DONE, INVALID};
use integration::{Change, Scope, in_namespace, version_of};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};

async fn label(test: &Scope, name: &str, value: Option<&str>) -> kube::Result<Pod> {
    test.pods().label(name, "app", value).await
}

#[test]
fn a_watch_from_now_begins_with_what_is_there() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        test.pod("b").await?;
        let mut changes = test.watch::<Pod>().start().await?;
        assert_eq!(changes.take(2).await?, ["ADDED a", "ADDED b"]);
        label(test, "a", Some("x")).await?;
        test.pods().delete("b").await?;
        let expected = ["MODIFIED a", "MODIFIED b", "DELETED b"];
        assert_eq!(changes.take(3).await?, expected);
        Ok(())
    })
}

#[test]
fn a_watch_resumes_exactly_after_the_version_it_is_given() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let mut first = test.watch::<Pod>().from_now().await?.start().await?;
        test.pod("b").await?;
        let (_, b) = first.object().await?;
        drop(first);
        test.pod("c").await?;
        label(test, "a", Some("x")).await?;
        let mut resumed = test.watch::<Pod>().after(version_of(&b)?).start().await?;
        test.pod("d").await?;
        assert_eq!(resumed.take(3).await?, ["ADDED c", "MODIFIED a", "ADDED d"]);
        Ok(())
    })
}

#[test]
fn changes_come_in_the_order_of_their_versions() -> Result<()> {
    in_namespace(async |test| {
        let mut last = test.pods().version().await?;
        let mut changes = test.watch::<Pod>().after(last).start().await?;
        let writes = (0..20).map(|n| async move { test.pod(&format!("p{n}")).await });
        try_join_all(writes).await?;
        for _ in 0..20 {
            let (_, pod) = changes.object().await?;
            let version = version_of(&pod)?;
            assert!(version > last);
            last = version;
        }
        Ok(())
    })
}

#[test]
fn an_object_that_starts_or_stops_matching_appears_and_disappears() -> Result<()> {
    in_namespace(async |test| {
        let version = test.pods().version().await?;
        let watch = || test.watch::<Pod>().after(version).labels("app=x");
        let mut live = watch().start().await?;
        test.pod("a").await?;
        label(test, "a", Some("x")).await?;
        let patch = json!({"metadata": {"annotations": {"n": "1"}}});
        test.pods().merge("a", patch).await?;
        let left = label(test, "a", Some("y")).await?;
        label(test, "a", None).await?;
        label(test, "a", Some("x")).await?;
        test.pods().delete("a").await?;
        let round = ["ADDED a", "MODIFIED a", "DELETED a"];
        assert_eq!(live.take(6).await?, [round, round].concat());
        let mut replayed = watch().start().await?;
        replayed.take(2).await?;
        let (kind, gone) = replayed.object().await?;
        assert_eq!(kind, "DELETED");
        assert_eq!(gone.labels()["app"], "x", "the state that the watcher knew");
        let at = (gone.resource_version(), left.resource_version());
        assert_eq!(at.0, at.1, "at the version of the change");
        Ok(())
    })
}

#[test]
fn a_node_sees_a_pod_when_it_is_bound_there() -> Result<()> {
    in_namespace(async |test| {
        let watch = test.watch::<Pod>().fields("spec.nodeName=n1");
        let mut changes = watch.from_now().await?.start().await?;
        for (name, node) in [("a", "n2"), ("b", "n1")] {
            test.pod(name).await?;
            test.bind(name, node).await?;
        }
        assert_eq!(changes.take(1).await?, ["ADDED b"]);
        Ok(())
    })
}

#[test]
fn a_watch_sees_only_its_namespace() -> Result<()> {
    in_namespace(async |test| {
        let other = test.another_namespace().await?;
        let mut changes = test.watch::<Pod>().from_now().await?.start().await?;
        test.pods_in(&other).create(pod("there")).await?;
        test.pod("here").await?;
        assert_eq!(changes.take(1).await?, ["ADDED here"]);
        test.drop_namespace(&other).await
    })
}

#[test]
fn a_marked_bookmark_ends_the_initial_state() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let mut changes = test.watch::<Pod>().bookmarks().start().await?;
        assert_eq!(changes.take(1).await?, ["ADDED a"]);
        let Some(Change::Bookmark(version, true)) = changes.next().await? else {
            bail!("no bookmark that ends the initial state");
        };
        assert!(version >= version_of(&created)?);
        test.pod("b").await?;
        // A bookmark's version can be resumed from.
        let mut resumed = test.watch::<Pod>().after(version).start().await?;
        assert_eq!(resumed.take(1).await?, ["ADDED b"]);
        Ok(())
    })
}

#[test]
fn a_bookmark_tells_of_writes_that_the_watch_does_not_show() -> Result<()> {
    in_namespace(async |test| {
        let version = test.configs().version().await?;
        let unseen = test.config("unseen", json!({})).await?;
        // A watch gets a last bookmark shortly before its timeout.
        let watch = test.watch::<ConfigMap>().after(version).timeout(5);
        let watch = watch.labels("app=nobody").bookmarks();
        match watch.start().await?.next().await? {
            Some(Change::Bookmark(version, _)) => assert!(version >= version_of(&unseen)?),
            other => bail!("expected a bookmark, got {other:?}"),
        }
        Ok(())
    })
}

#[test]
fn a_watch_ends_quietly_when_its_time_is_up() -> Result<()> {
    in_namespace(async |test| {
        let watch = test.watch::<Pod>().timeout(1);
        let mut changes = watch.from_now().await?.start().await?;
        assert!(changes.next().await?.is_none());
        Ok(())
    })
}

/// A test cannot expire a real server's history from outside, so either answer is right; no answer is wrong.
#[test]
fn a_watch_from_long_ago_replays_everything_or_says_that_it_cannot() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let mut changes = test.watch::<Pod>().after(1).start().await?;
        match changes.next().await? {
            Some(Change::Added(pod)) => assert_eq!(pod.name_any(), "a"),
            Some(Change::Error(error)) => {
                error.must_be((410, "Expired"));
                error.must_say("too old resource version");
            }
            other => bail!("expected the pod or 410, got {other:?}"),
        }
        Ok(())
    })
}

#[test]
fn a_streamed_list_is_the_state_then_a_bookmark_then_changes() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let query = "watch=true&sendInitialEvents=true";
        let path = test.path("/api/v1", &format!("pods?{query}"));
        let options = "resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
        let answer = test.raw().get(&format!("{path}&{options}")).await?;
        answer.must_be(DONE);
        let lines = answer.body.as_str().context("not lines")?.lines();
        let lines: Vec<Value> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
        let kinds = lines.iter().filter_map(|line| line["type"].as_str());
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds[..2], ["ADDED", "BOOKMARK"]);
        // A real server may add a bookmark for changes elsewhere.
        let mut rest = kinds[2..].iter();
        assert!(rest.all(|kind| *kind == "BOOKMARK"), "{kinds:?}");
        let marks = &lines[1]["object"]["metadata"]["annotations"];
        assert_eq!(marks["k8s.io/initial-events-end"], "true");
        test.raw().get(&path).await?.must_be(INVALID);
        Ok(())
    })
}
