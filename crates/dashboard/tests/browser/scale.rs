//! Five thousand nodes: the page is readable, searchable, and stays responsive.

use futures::stream::{self, StreamExt};
use serde_json::Value;

use crate::cluster::{A100, Cluster, T4};
use crate::{Window, pictures};

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
    let window = Window::on(&cluster);
    let observe = "window.long = []; new PerformanceObserver((list) => window.long.push(...list.getEntries().map((task) => Math.round(task.duration)))).observe({type: 'longtask', buffered: true})";
    window.page.before_scripts(observe).unwrap();
    window.go("#/", "5,000 nodes");
    pictures::keep(&window, "many-overview");
    window.go("#/nodes", "5,000 nodes");
    pictures::keep(&window, "many-nodes");
    let rows = "document.querySelectorAll('tbody tr').length";
    let drawn = window.eval(rows).as_u64().unwrap();
    assert!(drawn < 100, "only what is in sight is in the page: {drawn}");
    window.eval("document.querySelector('.tall').scrollTop = 1e9");
    window.until("document.querySelector('tr[aria-rowindex=\"5001\"]') !== null");
    window.eval("document.getElementById('search').focus()");
    window.types("gpu-4321");
    window.shows("1 of 5,000 nodes");
    let late = ("gpu-4321", 1);
    cluster.place("default", "late", late, (40_960, 20)).await;
    window.until("document.querySelector('tbody td.number')?.textContent === '1'");
    // The last response: those before the cluster is listed are refusals.
    let sizes = "performance.getEntriesByType('resource').filter((entry) => entry.name.endsWith('/api/snapshot')).map((entry) => [entry.encodedBodySize, entry.decodedBodySize]).at(-1)";
    let sizes = window.eval(sizes);
    let (sent, read) = (sizes[0].as_u64().unwrap(), sizes[1].as_u64().unwrap());
    assert!(sent * 4 < read, "{sent} of {read} bytes are sent");
    println!("the first answer: {read} bytes, {sent} on the wire");
    // How long they take depends on the machine: cargo xtask bench judges it on a quiet one.
    let long = window.eval("window.long");
    let long = long.as_array().into_iter().flatten();
    let long: Vec<u64> = long.filter_map(Value::as_u64).collect();
    let longest = long.iter().max().unwrap_or(&0);
    println!("long tasks: {}, the longest {longest} ms", long.len());
}
