//! A plain HTTP client: each request uses a new connection.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const DEADLINE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

async fn send(to: SocketAddr, request: &str, headers: &[(&str, &str)]) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let mut text = format!("{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        write!(text, "Host: {to}\r\n").unwrap();
    }
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    BufReader::new(stream)
}

/// The head in lower case and the body unchanged.
pub(crate) async fn ask_bytes(
    to: SocketAddr,
    request: &str,
    headers: &[(&str, &str)],
) -> (String, Vec<u8>) {
    let reading = async {
        let mut stream = send(to, request, headers).await;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let body = answer.split_off(end.unwrap() + 4);
        (String::from_utf8(answer).unwrap().to_lowercase(), body)
    };
    tokio::time::timeout(DEADLINE, reading).await.unwrap()
}

/// Sends a request such as `GET /` and reads the whole answer.
pub(crate) async fn ask(to: SocketAddr, request: &str, headers: &[(&str, &str)]) -> Answer {
    let reading = async {
        let mut stream = send(to, request, headers).await;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await.unwrap();
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    };
    tokio::time::timeout(DEADLINE, reading).await.unwrap()
}

/// Like [`ask`], repeated until the dashboard has listed the cluster.
pub(crate) async fn when_ready(to: SocketAddr, path: &str) -> Answer {
    let asking = async {
        loop {
            let answer = ask(to, &format!("GET {path}"), &[]).await;
            if answer.status != 503 {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, asking).await.unwrap()
}

/// The snapshot, as soon as it satisfies the condition.
pub(crate) async fn snapshot_with(to: SocketAddr, good: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let snapshot = when_ready(to, "/api/snapshot").await.json();
            if good(&snapshot) {
                return snapshot;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(DEADLINE, looking).await;
    found.unwrap_or_else(|_| panic!("no snapshot was as it should be"))
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
        Self(send(to, &format!("GET {path}"), headers).await)
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
        tokio::time::timeout(DEADLINE, reading).await.unwrap();
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
