//! Lists: selectors, pages, versions.

use anyhow::{Context, Result};
use integration::objects::pod;
use integration::verdict::{BAD_REQUEST, INVALID};
use integration::{Scope, in_namespace, version_of};
use kube::ResourceExt;
use kube::api::ListParams;

/// Stops the test unless each selector finds the pods beside it.
async fn must_select<'p>(
    test: &Scope,
    select: impl Fn(&str) -> ListParams,
    cases: impl IntoIterator<Item = (&'p str, Vec<&'p str>)>,
) -> Result<()> {
    for (selector, expected) in cases {
        let found = test.pods().names(&select(selector)).await?;
        assert_eq!(found, expected, "{selector}");
    }
    Ok(())
}

#[test]
fn labels_select_by_equality_and_by_sets() -> Result<()> {
    in_namespace(async |test| {
        let a = pod("a").label("app", "x").label("tier", "web");
        test.create_pod(a).await?;
        test.create_pod(pod("b").label("app", "y")).await?;
        test.pod("c").await?;
        let cases = [
            ("app=x", vec!["a"]),
            ("app==x", vec!["a"]),
            ("app!=x", vec!["b", "c"]),
            ("app in (x, y)", vec!["a", "b"]),
            ("app notin (x)", vec!["b", "c"]),
            ("app", vec!["a", "b"]),
            ("!app", vec!["c"]),
            ("app in (x,y),!tier", vec!["b"]),
            ("app=", vec![]),
        ];
        must_select(test, |labels| ListParams::default().labels(labels), cases).await
    })
}

#[test]
fn fields_select_by_name_node_and_phase() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        test.pod("b").await?;
        test.bind("b", "n1").await?;
        let cases = [
            ("metadata.name=a", vec!["a"]),
            ("metadata.name!=a", vec!["b"]),
            ("spec.nodeName=n1", vec!["b"]),
            ("spec.nodeName=", vec!["a"]),
            ("spec.nodeName!=", vec!["b"]),
            ("status.phase=Pending,spec.nodeName=n1", vec!["b"]),
            ("status.phase=Running", vec![]),
        ];
        must_select(test, |fields| ListParams::default().fields(fields), cases).await
    })
}

#[test]
fn pages_together_show_one_moment() -> Result<()> {
    in_namespace(async |test| {
        for name in ["a", "b", "c", "d", "e"] {
            test.pod(name).await?;
        }
        let pods = test.pods();
        let page = async |params: ListParams| {
            let list = pods.api.list(&params).await?;
            let names: Vec<_> = list.items.iter().map(ResourceExt::name_any).collect();
            anyhow::Ok((names, list.metadata))
        };
        let (names, first) = page(ListParams::default().limit(2)).await?;
        assert_eq!(names, ["a", "b"]);
        assert_eq!(first.remaining_item_count, Some(3));
        let token = first.continue_.context("no way to go on")?;
        pods.delete("d").await?;
        test.pod("f").await?;
        let rest = ListParams::default().limit(10).continue_token(&token);
        let (names, rest) = page(rest).await?;
        let why = "what came later is not on the later page";
        assert_eq!(names, ["c", "d", "e"], "{why}");
        assert_eq!(rest.resource_version, first.resource_version);
        assert!(rest.continue_.is_none_or(|token| token.is_empty()));
        let (names, _) = page(ListParams::default()).await?;
        assert_eq!(names, ["a", "b", "c", "e", "f"]);
        Ok(())
    })
}

#[test]
fn a_list_is_at_least_as_new_as_the_last_write() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let list = test.pods().api.list(&ListParams::default()).await?;
        let listed = list.metadata.resource_version.context("no version")?;
        assert!(listed.parse::<u64>()? >= version_of(&created)?);
        assert_eq!(list.items, [created]);
        Ok(())
    })
}

#[test]
fn questions_that_make_no_sense_are_refused() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "pods");
        for (query, verdict) in [
            ("labelSelector=a%20in", BAD_REQUEST),
            ("fieldSelector=spec.colour=red", BAD_REQUEST),
            ("fieldSelector=nonsense", BAD_REQUEST),
            ("limit=many", BAD_REQUEST),
            ("continue=nonsense", BAD_REQUEST),
            ("resourceVersion=nonsense", BAD_REQUEST),
            ("resourceVersionMatch=Exact", INVALID),
            ("resourceVersion=1&resourceVersionMatch=Nearly", INVALID),
            ("sendInitialEvents=true", INVALID),
            ("resourceVersion=9000000000000000", (504, "Timeout")),
        ] {
            let answer = test.raw().get(&format!("{path}?{query}")).await?;
            answer.must_be(verdict);
        }
        Ok(())
    })
}
