//! Bodies that are large, slow or never end, while an ordinary request is waiting for its answer.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use futures::stream::{self, StreamExt};
use gpushare_daemon::Tasks;
use gpushare_daemon::serve::{self, Connections, Limits};
use gpushare_extender::Extender;
use gpushare_extender::config::Config;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::asked::Asked;
use crate::cluster::{extender, extender_with, node, pod_of_gib, post, send};

const KIB: usize = 1024;

/// A request whose body begins and never ends, and the answer that it gets nevertheless.
fn never_ending(extender: &Extender, begun: Bytes) -> JoinHandle<(StatusCode, Vec<u8>)> {
    let announced = begun.len() + 1;
    let body = stream::iter([Ok::<_, Infallible>(begun)]).chain(stream::pending());
    let request = Request::post("/gpushare-scheduler/filter")
        .header("content-length", announced)
        .body(Body::from_stream(body))
        .unwrap();
    let extender = extender.clone();
    tokio::spawn(async move { send(&extender, request).await })
}

/// Waits until this many of the requests are answered, although their bodies never end.
async fn until_given_up(open: &[JoinHandle<(StatusCode, Vec<u8>)>], number: usize) {
    let given_up = async {
        while open.iter().filter(|body| body.is_finished()).count() < number {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), given_up).await;
    assert!(waited.is_ok(), "fewer than {number} were given up");
}

#[tokio::test]
async fn an_ordinary_request_is_answered_while_large_bodies_never_end() {
    let extender = extender_with(Config::alone(), &[node("n1", &[8])], &[]);
    // Eight of them fill the room to its last byte.
    let begun = Bytes::from(vec![b' '; 8 * KIB * KIB]);
    let open: Vec<_> = (0..20)
        .map(|_| never_ending(&extender, begun.clone()))
        .collect();
    until_given_up(&open, 12).await;
    let result = extender.filter(&pod_of_gib("fine", 1), &["n1"]).await;
    assert_eq!(result.node_names.unwrap(), ["n1"]);
    until_given_up(&open, 13).await;
    let (given_up, left): (Vec<_>, Vec<_>) = open.into_iter().partition(JoinHandle::is_finished);
    assert_eq!(left.len(), 7, "no more were given up than had to be");
    for body in given_up {
        assert_eq!(body.await.unwrap().0, StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_answered_with_the_deadline() {
    let extender = extender(&[node("n1", &[8])], &[]);
    let listener = serve::listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Connections::default().within(Limits {
        body: Duration::from_millis(100),
        ..Limits::default()
    });
    let tasks = Tasks::new();
    let router = extender.router();
    serve::spawn(&tasks, "server", listener, None, router, connections);
    let mut client = TcpStream::connect(address).await.unwrap();
    let begun =
        b"POST /gpushare-scheduler/filter HTTP/1.1\r\nhost: test\r\ncontent-length: 9\r\n\r\n{";
    client.write_all(begun).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("did not arrive within 100ms"), "{answer}");
    tasks.shutdown().cancel();
    tasks.finished(serve::DRAIN).await.unwrap();
}

#[tokio::test]
async fn the_largest_body_follows_from_the_number_of_nodes() {
    let mut body = json!({"Pod": pod_of_gib("a", 1), "NodeNames": ["n1"]}).to_string();
    body.push_str(&" ".repeat(17 * KIB * KIB - body.len()));
    for (nodes, expected) in [(1, StatusCode::PAYLOAD_TOO_LARGE), (32, StatusCode::OK)] {
        let nodes: Vec<Value> = (1..=nodes)
            .map(|number| node(&format!("n{number}"), &[8]))
            .collect();
        let extender = extender_with(Config::alone(), &nodes, &[]);
        let (status, answer) = post(&extender, "filter", body.clone()).await;
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(status, expected, "{answer}");
        let limit = "16 MiB and 32 KiB for each of 1 nodes";
        assert_eq!(answer.contains(limit), status != StatusCode::OK, "{answer}");
    }
}
