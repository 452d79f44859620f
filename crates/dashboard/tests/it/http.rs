//! Requests to the dashboard: each uses a new connection.

use std::net::SocketAddr;

use gpushare_testkit::http::{self, Answer};
use gpushare_testkit::{PATIENCE, until};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;

/// Sends a request such as `GET /` and reads the whole answer.
pub(crate) async fn ask(to: SocketAddr, request: &str, headers: &[(&str, &str)]) -> Answer {
    http::send(to, request, headers, b"").await.unwrap()
}

/// The answer to a GET, as soon as the dashboard has listed the cluster.
pub(crate) async fn when_ready(to: SocketAddr, path: &str) -> Answer {
    until("the dashboard has listed the cluster", async || {
        let answer = http::get(to, path).await.unwrap();
        if answer.status == 503 {
            Err(answer)
        } else {
            Ok(answer)
        }
    })
    .await
}

/// The snapshot, as soon as it satisfies the condition.
pub(crate) async fn snapshot_with(to: SocketAddr, good: impl Fn(&Value) -> bool) -> Value {
    until("a snapshot as it should be", async || {
        let snapshot = when_ready(to, "/api/snapshot").await.json();
        if good(&snapshot) {
            Ok(snapshot)
        } else {
            Err(snapshot)
        }
    })
    .await
}

/// One server-sent event.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) event: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// A live stream.
pub(crate) struct Stream(BufReader<TcpStream>);

impl Stream {
    pub(crate) async fn open(to: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        let stream = http::open(to, &format!("GET {path}"), headers, 0).await;
        Self(BufReader::new(stream.unwrap()))
    }

    pub(crate) async fn next(&mut self) -> Told {
        let mut told = Told {
            event: String::new(),
            id: String::new(),
            data: Value::Null,
        };
        let reading = async {
            let mut line = String::new();
            loop {
                line.clear();
                assert!(self.0.read_line(&mut line).await.unwrap() > 0, "it ended");
                match line.trim_end().split_once(": ") {
                    Some(("event", event)) => event.clone_into(&mut told.event),
                    Some(("id", id)) => id.clone_into(&mut told.id),
                    Some(("data", data)) => {
                        told.data = serde_json::from_str(data).unwrap();
                    }
                    _ if line.trim().is_empty() && !told.data.is_null() => return,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.unwrap();
        told
    }

    /// The next event that satisfies the condition.
    pub(crate) async fn next_with(&mut self, good: impl Fn(&Told) -> bool) -> Told {
        loop {
            let told = self.next().await;
            if good(&told) {
                return told;
            }
        }
    }
}
