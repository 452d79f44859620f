//! A minimal HTTP client, which can also send what no proper client would.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Sends one request on a new connection. `declared` is the Content-Length, which may be false.
pub async fn send(
    address: &str,
    method: &str,
    path: &str,
    body: &[u8],
    declared: usize,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {declared}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    // A server that has refused the header may close before it has read the body; its answer still counts.
    let sent = stream.write_all(body).await;
    if body.len() < declared {
        stream.shutdown().await?;
    }
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        sent?;
        read?;
        return Err(io::Error::other(format!("no HTTP answer: {answer:?}")));
    };
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    Ok(Answer {
        status,
        body: body.to_owned(),
    })
}

pub async fn post(address: &str, path: &str, body: &serde_json::Value) -> io::Result<Answer> {
    let body = body.to_string();
    send(address, "POST", path, body.as_bytes(), body.len()).await
}

pub async fn get(address: &str, path: &str) -> io::Result<Answer> {
    send(address, "GET", path, &[], 0).await
}
