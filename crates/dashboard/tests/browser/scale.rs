//! Five thousand nodes: the page is readable, searchable, and stays responsive.

use futures::stream::{self, StreamExt};
use serde_json::Value;

use crate::cluster::{A100, Cluster, T4};
use crate::{LIGHT, Window, pictures};

const NODES: usize = 5000;
const AT_ONCE: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_nodes_are_searched_and_scrolled() {
    let cluster = Cluster::start().await;
    let add = |node: usize| {
        let cluster = &cluster;
        async move {
            let name = format!("gpu-{node:04}");
            let card = if node.is_multiple_of(4) { T4 } else { A100 };
            cluster.add_node(&name, &[card; 8]).await;
            if node.is_multiple_of(5) {
                let pod = format!("p-{node}");
                cluster.place("default", &pod, (&name, 0), (8192, 20)).await;
            }
        }
    };
    stream::iter(0..NODES)
        .map(add)
        .buffer_unordered(AT_ONCE)
        .collect::<()>()
        .await;
    let window = Window::open(cluster.dashboard(), LIGHT);
    let page = &window.page;
    page.before_scripts(
        "window.long = []; new PerformanceObserver((list) => window.long.push(...list.getEntries().map((task) => Math.round(task.duration)))).observe({type: 'longtask', buffered: true})",
    )
    .unwrap();
    window.go("#/", "5,000 nodes");
    pictures::keep(&window, "many-overview");
    window.go("#/nodes", "5,000 nodes");
    pictures::keep(&window, "many-nodes");
    let rows = "document.querySelectorAll('tbody tr').length";
    let drawn = page.eval(rows).unwrap().as_u64().unwrap();
    assert!(drawn < 100, "only what is in sight is in the page: {drawn}");
    page.eval("document.querySelector('.tall').scrollTop = 1e9")
        .unwrap();
    page.wait("document.querySelector('tr[aria-rowindex=\"5001\"]') !== null")
        .unwrap();
    page.eval("document.getElementById('search').focus()")
        .unwrap();
    page.type_text("gpu-4321").unwrap();
    page.wait_for_text("1 of 5,000 nodes").unwrap();
    cluster
        .place("default", "late", ("gpu-4321", 1), (40_960, 20))
        .await;
    page.wait("document.querySelector('tbody td.number')?.textContent === '1'")
        .unwrap();
    // The last response: those before the cluster is listed are refusals.
    let sizes = "performance.getEntriesByType('resource').filter((entry) => entry.name.endsWith('/api/snapshot')).map((entry) => [entry.encodedBodySize, entry.decodedBodySize]).at(-1)";
    let sizes = page.eval(sizes).unwrap();
    let (sent, read) = (sizes[0].as_u64().unwrap(), sizes[1].as_u64().unwrap());
    assert!(sent * 4 < read, "{sent} of {read} bytes are sent");
    println!("the first answer: {read} bytes, {sent} on the wire");
    // How long they take depends on the machine: cargo xtask bench judges it on a quiet one.
    let long = page.eval("window.long").unwrap();
    let count = long.as_array().map_or(0, Vec::len);
    let longest = long
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .max();
    println!(
        "long tasks: {count}, the longest {} ms",
        longest.unwrap_or(0)
    );
}
