//! Many nodes and pods: every watcher gets exactly the events that it selects, and a burst loses none.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt;
use kube::api::{ListParams, WatchEvent, WatchParams};

use super::{bind, create_pod, pods, soon, start};

const NODES: usize = 100;
const PODS: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_hears_of_its_own_pods_and_of_no_others() -> Result<()> {
    let (server, client) = start().await?;
    let from = pods(client.clone()).list(&ListParams::default()).await?;
    let from = from.metadata.resource_version.context("no version")?;
    let mut agents = Vec::new();
    for node in 0..NODES {
        let api = pods(client.clone());
        let params = WatchParams::default().fields(&format!("spec.nodeName=n{node}"));
        let mut watch = api.watch(&params, &from).await?.boxed();
        agents.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.len() < PODS / NODES {
                match watch.try_next().await?.context("the watch ended")? {
                    WatchEvent::Added(pod) => seen.push(pod.name_any()),
                    WatchEvent::Bookmark(_) => {}
                    other => anyhow::bail!("n{node} heard {other:?}"),
                }
            }
            seen.sort();
            anyhow::Ok(seen)
        }));
    }
    assert_eq!(server.faults().open_watches(), NODES);

    let work = stream::iter(0..PODS).map(|n| {
        let client = client.clone();
        async move {
            let name = format!("p{n:04}");
            create_pod(&client, &name).await?;
            bind(&client, &name, &format!("n{}", n % NODES)).await?;
            anyhow::Ok(())
        }
    });
    work.buffer_unordered(16).try_collect::<()>().await?;

    for (node, agent) in agents.into_iter().enumerate() {
        let seen = soon("an agent", agent).await???;
        let expected: Vec<String> = (node..PODS)
            .step_by(NODES)
            .map(|n| format!("p{n:04}"))
            .collect();
        assert_eq!(seen, expected, "n{node}");
    }
    let all = pods(client).list(&ListParams::default()).await?;
    assert_eq!(all.items.len(), PODS);
    Ok(())
}
