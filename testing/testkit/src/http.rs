//! HTTP/1.1 by hand: a test sees every byte, and can send what no proper client would.

use std::fmt::Write as _;
use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, ToSocketAddrs};

use crate::PATIENCE;

type Headers<'a> = &'a [(&'a str, &'a str)];

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    fn parse(answer: &[u8]) -> Option<Self> {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, body) = answer.split_at_checked(end + 4)?;
        let head = String::from_utf8_lossy(head).into_owned();
        Some(Self {
            status: head.split(' ').nth(1)?.parse().ok()?,
            head,
            body: body.to_vec(),
        })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends the head of a request such as `GET /`, and leaves the connection to the caller. Of `Host`, `Connection` and
/// `Content-Length`, those that are not given are added.
pub async fn open(
    to: impl ToSocketAddrs,
    request: &str,
    headers: Headers<'_>,
    body: usize,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    let (host, length) = (stream.peer_addr()?.to_string(), body.to_string());
    let usual = [
        ("Host", host.as_str()),
        ("Connection", "close"),
        ("Content-Length", &length),
    ];
    let given = |name: &str| headers.iter().any(|(given, _)| *given == name);
    let missing = usual.iter().filter(|(name, _)| !given(name));
    let mut head = format!("{request} HTTP/1.1\r\n");
    for (name, value) in headers.iter().chain(missing) {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

/// Sends a request on a new connection and reads the whole answer. If `headers` give the body another length, nothing
/// follows it.
pub async fn send(
    to: impl ToSocketAddrs,
    request: &str,
    headers: Headers<'_>,
    body: &[u8],
) -> io::Result<Answer> {
    let work = async {
        let mut stream = open(to, request, headers, body.len()).await?;
        // A server that has refused the header may close before it has read the body; its answer still counts.
        let sent = stream.write_all(body).await;
        if headers.iter().any(|(name, _)| *name == "Content-Length") {
            stream.shutdown().await?;
        }
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer).await;
        if let Some(answer) = Answer::parse(&answer) {
            return Ok(answer);
        }
        sent?;
        read?;
        let seen = String::from_utf8_lossy(&answer);
        Err(io::Error::other(format!("no HTTP answer: {seen:?}")))
    };
    tokio::time::timeout(PATIENCE, work).await?
}

pub async fn get(to: impl ToSocketAddrs, path: &str) -> io::Result<Answer> {
    send(to, &format!("GET {path}"), &[], b"").await
}

pub async fn post(to: impl ToSocketAddrs, path: &str, body: &Value) -> io::Result<Answer> {
    let headers = [("Content-Type", "application/json")];
    let body = body.to_string();
    send(to, &format!("POST {path}"), &headers, body.as_bytes()).await
}

/// Waits for an answer in a test without a runtime.
pub fn blocking<T>(asking: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(asking)
}
