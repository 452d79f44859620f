//! Watches that end, break or come too late, and clients that must not lose any change because of it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use gpushare_apiserver::{Answer, On, Server, Times, Verb};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt};

use super::{configs, create_config, plain_client, soon, start};

async fn version(client: &Client) -> Result<String> {
    let list = configs(client.clone()).list(&ListParams::default()).await?;
    list.metadata.resource_version.context("no version")
}

#[tokio::test]
async fn dropped_watches_end_and_cut_watches_break() -> Result<()> {
    let (server, client) = start().await?;
    let from = version(&client).await?;
    let api = configs(client.clone());
    let params = WatchParams::default();

    let mut clean = api.watch(&params, &from).await?.boxed();
    create_config(&client, "a").await?;
    let first = clean.try_next().await?;
    assert!(matches!(first, Some(WatchEvent::Added(_))));
    assert_eq!(server.faults().open_watches(), 1);
    assert_eq!(server.faults().drop_watches(), 1);
    assert!(soon("the end", clean.try_next()).await??.is_none());

    // kube treats a broken stream like an ended one, so this test uses the layer below.
    let path = format!("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={from}");
    let request = hyper::Request::get(path).body(kube::client::Body::empty())?;
    let mut body = client.send(request).await?.into_body();
    let first = body.frame().await.context("no first event")??;
    assert!(first.is_data());
    assert_eq!(server.faults().cut_watches(), 1);
    let last = soon("the break", body.frame()).await?;
    assert!(last.context("the watch ended cleanly")?.is_err());
    Ok(())
}

#[tokio::test]
async fn expired_history_is_answered_with_gone() -> Result<()> {
    let (server, client) = start().await?;
    let old = version(&client).await?;
    create_config(&client, "a").await?;
    server.faults().expire_history();
    let api = configs(client.clone());
    let mut late = api.watch(&WatchParams::default(), &old).await?.boxed();
    match late.try_next().await? {
        Some(WatchEvent::Error(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        }
        other => bail!("expected 410, got {other:?}"),
    }
    let fresh = version(&client).await?;
    let mut watch = api.watch(&WatchParams::default(), &fresh).await?.boxed();
    create_config(&client, "b").await?;
    let first = watch.try_next().await?;
    assert!(matches!(first, Some(WatchEvent::Added(_))));
    Ok(())
}

#[tokio::test]
async fn a_page_of_an_expired_list_is_gone_but_can_be_gone_on_from() -> Result<()> {
    let (server, client) = start().await?;
    for name in ["a", "b", "c"] {
        create_config(&client, name).await?;
    }
    let api = configs(client.clone());
    let first = api.list(&ListParams::default().limit(1)).await?;
    let token = first.metadata.continue_.context("no token")?;
    create_config(&client, "d").await?;
    server.faults().expire_history();
    let late = api
        .list(&ListParams::default().limit(1).continue_token(&token))
        .await;
    let Err(kube::Error::Api(status)) = late else {
        bail!("an expired page was answered")
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let token = status
        .metadata
        .and_then(|metadata| metadata.continue_)
        .context("no way on")?;
    let rest = api
        .list(&ListParams::default().continue_token(&token))
        .await?;
    let names: Vec<_> = rest.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["b", "c", "d"]);
    Ok(())
}

#[tokio::test]
async fn only_the_promised_history_is_kept() -> Result<()> {
    let server = Server::builder().history(5).start().await?;
    let client = plain_client(&server)?;
    let start = version(&client).await?;
    let mut versions = Vec::new();
    for n in 0..10 {
        let created = create_config(&client, &format!("c{n}")).await?;
        versions.push(created.resource_version().context("no version")?);
    }
    let api = configs(client.clone());
    let first = |from: String| {
        let api = api.clone();
        async move {
            let mut watch = api.watch(&WatchParams::default(), &from).await?.boxed();
            anyhow::Ok(watch.try_next().await?.context("the watch ended")?)
        }
    };
    assert!(matches!(first(start).await?, WatchEvent::Error(_)));
    let too_old = first(versions[3].clone()).await?;
    assert!(matches!(too_old, WatchEvent::Error(_)));
    match first(versions[4].clone()).await? {
        WatchEvent::Added(config) => assert_eq!(config.name_any(), "c5"),
        other => bail!("expected c5, got {other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn bookmarks_come_as_often_as_configured() -> Result<()> {
    let server = Server::builder()
        .bookmarks(Duration::from_millis(20))
        .start()
        .await?;
    let client = plain_client(&server)?;
    let from = version(&client).await?;
    let params = WatchParams::default().labels("app=nobody");
    let mut watch = configs(client.clone()).watch(&params, &from).await?.boxed();
    let mut last = from.parse::<u64>()?;
    for name in ["a", "b"] {
        let created = create_config(&client, name).await?;
        let written = created
            .resource_version()
            .context("no version")?
            .parse::<u64>()?;
        while last < written {
            match soon("a bookmark", watch.try_next()).await?? {
                Some(WatchEvent::Bookmark(bookmark)) => {
                    let version = bookmark.metadata.resource_version.parse::<u64>()?;
                    assert!(version > last, "a bookmark without news");
                    last = version;
                }
                other => bail!("expected a bookmark, got {other:?}"),
            }
        }
    }
    Ok(())
}

/// The state a client builds from its watches must end up equal to the server's, whatever happens in between.
async fn a_reflector_keeps_up(strategy: watcher::Config) -> Result<()> {
    let (server, client) = start().await?;
    let (reader, writer) = reflector::store::<ConfigMap>();
    let stream = watcher(configs(server.client()), strategy)
        .default_backoff()
        .reflect(writer);
    let follow = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    soon("the first list", reader.wait_until_ready()).await??;

    for round in 0..30 {
        create_config(&client, &format!("keep-{round}")).await?;
        create_config(&client, &format!("drop-{round}")).await?;
        match round % 5 {
            0 => drop(server.faults().drop_watches()),
            1 => drop(server.faults().cut_watches()),
            2 => {
                server.faults().expire_history();
                server.faults().cut_watches();
            }
            3 => drop(
                server
                    .faults()
                    .cut_before(On::any().verb(Verb::Watch), Times::Next(1)),
            ),
            _ => {
                let on = On::any().verb(Verb::List);
                server
                    .faults()
                    .answer(on, Times::Next(1), Answer::InternalError);
                server.faults().drop_watches();
            }
        }
        let doomed = format!("drop-{round}");
        configs(client.clone())
            .delete(&doomed, &DeleteParams::default())
            .await?;
    }
    server.faults().clear();

    let list = configs(client.clone()).list(&ListParams::default()).await?;
    let expected: BTreeSet<String> = list.items.iter().map(ResourceExt::name_any).collect();
    soon("catching up", async {
        loop {
            let state = reader.state();
            let seen: BTreeSet<String> = state.iter().map(|config| config.name_any()).collect();
            if seen == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await?;
    follow.abort();
    Ok(())
}

#[tokio::test]
async fn a_reflector_that_lists_keeps_up_through_every_kind_of_trouble() -> Result<()> {
    a_reflector_keeps_up(watcher::Config::default()).await
}

#[tokio::test]
async fn a_reflector_that_streams_its_lists_keeps_up_through_every_kind_of_trouble() -> Result<()> {
    a_reflector_keeps_up(watcher::Config::default().streaming_lists()).await
}
