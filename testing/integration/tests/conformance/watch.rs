//! Watches: no event is lost or repeated, and the server says so when it cannot guarantee that.

use anyhow::{Context, Result, bail};
use integration::objects::pod;
use integration::{Change, Scope, in_namespace};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

async fn label(test: &Scope, name: &str, value: Option<&str>) -> Result<Pod> {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": value}}}));
    Ok(test
        .pods()
        .patch(name, &PatchParams::default(), &patch)
        .await?)
}

async fn list_version(test: &Scope) -> Result<String> {
    let list = test.pods().list(&ListParams::default()).await?;
    list.metadata.resource_version.context("no version")
}

#[tokio::test]
async fn a_watch_from_now_begins_with_what_is_there() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        test.pod("b").await?;
        let mut changes = test.watch::<Pod>().start().await?;
        assert_eq!(changes.take(2).await?, ["ADDED a", "ADDED b"]);
        label(test, "a", Some("x")).await?;
        test.pods().delete("b", &DeleteParams::default()).await?;
        assert_eq!(
            changes.take(3).await?,
            ["MODIFIED a", "MODIFIED b", "DELETED b"]
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_watch_resumes_exactly_after_the_version_it_is_given() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let version = list_version(test).await?;
        let mut first = test.watch::<Pod>().after(&version).start().await?;
        test.pod("b").await?;
        let (_, b) = first.object().await?;
        let seen = b.resource_version().context("no version")?;
        drop(first);
        test.pod("c").await?;
        label(test, "a", Some("x")).await?;
        let mut resumed = test.watch::<Pod>().after(&seen).start().await?;
        test.pod("d").await?;
        assert_eq!(resumed.take(3).await?, ["ADDED c", "MODIFIED a", "ADDED d"]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn changes_come_in_the_order_of_their_versions() -> Result<()> {
    in_namespace(async |test| {
        let version = list_version(test).await?;
        let mut changes = test.watch::<Pod>().after(&version).start().await?;
        let writes = (0..20).map(|n| async move { test.pod(&format!("p{n}")).await });
        futures::future::try_join_all(writes).await?;
        let mut last = version.parse::<u64>()?;
        for _ in 0..20 {
            let (_, pod) = changes.object().await?;
            let version = pod
                .resource_version()
                .context("no version")?
                .parse::<u64>()?;
            assert!(version > last);
            last = version;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_object_that_starts_or_stops_matching_appears_and_disappears() -> Result<()> {
    in_namespace(async |test| {
        let version = list_version(test).await?;
        let watch = || test.watch::<Pod>().after(&version).labels("app=x");
        let mut live = watch().start().await?;
        test.pod("a").await?;
        label(test, "a", Some("x")).await?;
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"n": "1"}}}));
        test.pods()
            .patch("a", &PatchParams::default(), &patch)
            .await?;
        let left = label(test, "a", Some("y")).await?;
        label(test, "a", None).await?;
        label(test, "a", Some("x")).await?;
        test.pods().delete("a", &DeleteParams::default()).await?;
        let expected = [
            "ADDED a",
            "MODIFIED a",
            "DELETED a",
            "ADDED a",
            "MODIFIED a",
            "DELETED a",
        ];
        assert_eq!(live.take(6).await?, expected);
        let mut replayed = watch().start().await?;
        replayed.take(2).await?;
        let (kind, gone) = replayed.object().await?;
        assert_eq!(kind, "DELETED");
        assert_eq!(gone.labels()["app"], "x", "the state that the watcher knew");
        assert_eq!(
            gone.resource_version(),
            left.resource_version(),
            "at the version of the change"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_node_sees_a_pod_when_it_is_bound_there() -> Result<()> {
    in_namespace(async |test| {
        let version = list_version(test).await?;
        let mut changes = test
            .watch::<Pod>()
            .after(&version)
            .fields("spec.nodeName=n1")
            .start()
            .await?;
        for (name, node) in [("a", "n2"), ("b", "n1")] {
            test.pod(name).await?;
            let binding =
                json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
            let path = format!("{}/{name}/binding", test.path("/api/v1", "pods"));
            assert_eq!(test.raw().post(&path, binding.to_string()).await?.code, 201);
        }
        assert_eq!(changes.take(1).await?, ["ADDED b"]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_watch_sees_only_its_namespace() -> Result<()> {
    in_namespace(async |test| {
        let other = test.another_namespace().await?;
        let version = list_version(test).await?;
        let mut changes = test.watch::<Pod>().after(&version).start().await?;
        let elsewhere: kube::Api<Pod> = kube::Api::namespaced(test.client(), &other);
        elsewhere
            .create(&PostParams::default(), &pod("there").build())
            .await?;
        test.pod("here").await?;
        assert_eq!(changes.take(1).await?, ["ADDED here"]);
        test.drop_namespace(&other).await
    })
    .await
}

#[tokio::test]
async fn a_marked_bookmark_ends_the_initial_state() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let mut changes = test.watch::<Pod>().bookmarks().start().await?;
        assert_eq!(changes.take(1).await?, ["ADDED a"]);
        let Some(Change::Bookmark(version, true)) = changes.next().await? else {
            bail!("no bookmark that ends the initial state");
        };
        let written: u64 = created.resource_version().context("no version")?.parse()?;
        assert!(version.parse::<u64>()? >= written);
        test.pod("b").await?;
        let mut resumed = test.watch::<Pod>().after(&version).start().await?;
        assert_eq!(
            resumed.take(1).await?,
            ["ADDED b"],
            "a bookmark's version can be resumed from"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_bookmark_tells_of_writes_that_the_watch_does_not_show() -> Result<()> {
    in_namespace(async |test| {
        let configs = test.objects::<ConfigMap>();
        let list = configs.list(&ListParams::default()).await?;
        let version = list.metadata.resource_version.context("no version")?;
        let unseen = ConfigMap {
            metadata: ObjectMeta {
                name: Some("unseen".to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        let written = configs.create(&PostParams::default(), &unseen).await?;
        let written: u64 = written.resource_version().context("no version")?.parse()?;
        // A watch gets a last bookmark shortly before its timeout.
        let watch = test
            .watch::<ConfigMap>()
            .after(&version)
            .labels("app=nobody")
            .timeout(5);
        let mut changes = watch.bookmarks().start().await?;
        match changes.next().await? {
            Some(Change::Bookmark(version, _)) => assert!(version.parse::<u64>()? >= written),
            other => bail!("expected a bookmark, got {other:?}"),
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_watch_ends_quietly_when_its_time_is_up() -> Result<()> {
    in_namespace(async |test| {
        let version = list_version(test).await?;
        let mut changes = test
            .watch::<Pod>()
            .after(&version)
            .timeout(1)
            .start()
            .await?;
        assert!(changes.next().await?.is_none());
        Ok(())
    })
    .await
}

/// A test cannot expire a real server's history from outside, so either answer is right; no answer is wrong.
#[tokio::test]
async fn a_watch_from_long_ago_replays_everything_or_says_that_it_cannot() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let mut changes = test.watch::<Pod>().after("1").start().await?;
        match changes.next().await? {
            Some(Change::Added(pod)) => assert_eq!(pod.name_any(), "a"),
            Some(Change::Error(status)) => {
                assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
                assert!(
                    status.message.contains("too old resource version"),
                    "{}",
                    status.message
                );
            }
            other => bail!("expected the pod or 410, got {other:?}"),
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_streamed_list_is_the_state_then_a_bookmark_then_changes() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let path = test.path("/api/v1", "pods");
        let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                     &allowWatchBookmarks=true&timeoutSeconds=1";
        let answer = test.raw().get(&format!("{path}?{query}")).await?;
        assert_eq!(answer.code, 200);
        let text = answer.body.as_str().context("not lines")?;
        let lines = text
            .lines()
            .map(serde_json::from_str::<Value>)
            .collect::<Result<Vec<_>, _>>()?;
        let kinds: Vec<_> = lines
            .iter()
            .filter_map(|line| line["type"].as_str())
            .collect();
        assert_eq!(kinds[..2], ["ADDED", "BOOKMARK"]);
        // A real server may add a bookmark for changes elsewhere.
        assert!(
            kinds[2..].iter().all(|kind| *kind == "BOOKMARK"),
            "{kinds:?}"
        );
        let marks = &lines[1]["object"]["metadata"]["annotations"];
        assert_eq!(marks["k8s.io/initial-events-end"], "true");
        let answer = test
            .raw()
            .get(&format!("{path}?watch=true&sendInitialEvents=true"))
            .await?;
        assert_eq!(answer.verdict(), (422, "Invalid"));
        Ok(())
    })
    .await
}
