//! Lists: selectors, pages, versions.

use anyhow::{Context, Result};
use integration::objects::pod;
use integration::{Scope, in_namespace};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

async fn names(test: &Scope, params: &ListParams) -> Result<Vec<String>> {
    let list = test.pods().list(params).await?;
    Ok(list.items.iter().map(ResourceExt::name_any).collect())
}

#[tokio::test]
async fn labels_select_by_equality_and_by_sets() -> Result<()> {
    in_namespace(async |test| {
        test.create_pod(&pod("a").label("app", "x").label("tier", "web").build())
            .await?;
        test.create_pod(&pod("b").label("app", "y").build()).await?;
        test.create_pod(&pod("c").build()).await?;
        for (selector, expected) in [
            ("app=x", vec!["a"]),
            ("app==x", vec!["a"]),
            ("app!=x", vec!["b", "c"]),
            ("app in (x, y)", vec!["a", "b"]),
            ("app notin (x)", vec!["b", "c"]),
            ("app", vec!["a", "b"]),
            ("!app", vec!["c"]),
            ("app in (x,y),!tier", vec!["b"]),
            ("app=", vec![]),
        ] {
            let found = names(test, &ListParams::default().labels(selector)).await?;
            assert_eq!(found, expected, "{selector}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn fields_select_by_name_node_and_phase() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        test.pod("b").await?;
        let binding = json!({"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n1"}});
        let path = format!("{}/b/binding", test.path("/api/v1", "pods"));
        assert_eq!(test.raw().post(&path, binding.to_string()).await?.code, 201);
        for (selector, expected) in [
            ("metadata.name=a", vec!["a"]),
            ("metadata.name!=a", vec!["b"]),
            ("spec.nodeName=n1", vec!["b"]),
            ("spec.nodeName=", vec!["a"]),
            ("spec.nodeName!=", vec!["b"]),
            ("status.phase=Pending,spec.nodeName=n1", vec!["b"]),
            ("status.phase=Running", vec![]),
        ] {
            let found = names(test, &ListParams::default().fields(selector)).await?;
            assert_eq!(found, expected, "{selector}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pages_together_show_one_moment() -> Result<()> {
    in_namespace(async |test| {
        for name in ["a", "b", "c", "d", "e"] {
            test.pod(name).await?;
        }
        let first = test.pods().list(&ListParams::default().limit(2)).await?;
        let first_names: Vec<_> = first.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(first_names, ["a", "b"]);
        assert_eq!(first.metadata.remaining_item_count, Some(3));
        let token = first
            .metadata
            .continue_
            .clone()
            .context("no way to go on")?;
        test.pods().delete("d", &DeleteParams::default()).await?;
        test.pod("f").await?;
        let rest = test
            .pods()
            .list(&ListParams::default().limit(10).continue_token(&token))
            .await?;
        let rest_names: Vec<_> = rest.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(
            rest_names,
            ["c", "d", "e"],
            "what came later is not on the later page"
        );
        assert_eq!(
            rest.metadata.resource_version,
            first.metadata.resource_version
        );
        assert!(rest.metadata.continue_.is_none_or(|token| token.is_empty()));
        assert_eq!(
            names(test, &ListParams::default()).await?,
            ["a", "b", "c", "e", "f"]
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_list_is_at_least_as_new_as_the_last_write() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let version: u64 = created.resource_version().context("no version")?.parse()?;
        let list = test.pods().list(&ListParams::default()).await?;
        let listed: u64 = list
            .metadata
            .resource_version
            .context("no version")?
            .parse()?;
        assert!(listed >= version);
        assert_eq!(list.items, [created]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "pods");
        for (query, verdict) in [
            ("labelSelector=a%20in", (400, "BadRequest")),
            ("fieldSelector=spec.colour=red", (400, "BadRequest")),
            ("fieldSelector=nonsense", (400, "BadRequest")),
            ("limit=many", (400, "BadRequest")),
            ("continue=nonsense", (400, "BadRequest")),
            ("resourceVersion=nonsense", (400, "BadRequest")),
            ("resourceVersionMatch=Exact", (422, "Invalid")),
            (
                "resourceVersion=1&resourceVersionMatch=Nearly",
                (422, "Invalid"),
            ),
            ("sendInitialEvents=true", (422, "Invalid")),
            ("resourceVersion=9000000000000000", (504, "Timeout")),
        ] {
            let answer = test.raw().get(&format!("{path}?{query}")).await?;
            assert_eq!(answer.verdict(), verdict, "{query}: {}", answer.message());
        }
        Ok(())
    })
    .await
}
