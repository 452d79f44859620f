//! Clients that are slow, silent or many: what they hold is bounded, and others are served meanwhile.
//!
//! Deadlines are short where they have to pass, and too long to be reached where they must not.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use gpushare_daemon::Tasks;
use gpushare_daemon::metrics::Catalogue;
use gpushare_daemon::serve::{self, Connections, Limits, Traffic};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;

const SOON: Duration = Duration::from_millis(100);
const NEVER: Duration = Duration::from_hours(1);
/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

const WHOLE: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn patient() -> Limits {
    Limits {
        connections: 100,
        per_client: 100,
        handshake: NEVER,
        head: NEVER,
        body: NEVER,
        idle: NEVER,
        stall: NEVER,
    }
}

struct Server {
    tasks: Tasks,
    address: SocketAddr,
    metrics: Arc<Registry>,
}

fn router() -> Router {
    Router::new()
        .route("/", get(async || "hello from the test"))
        .route("/echo", post(async |body: Bytes| body))
        .route("/flood", get(async || vec![b'x'; 64 * 1024 * 1024]))
}

impl Server {
    fn start(limit: impl FnOnce(&mut Limits)) -> Self {
        Self::of(router(), limit)
    }

    /// A server that is patient, except for the limits that `limit` sets.
    fn of(router: Router, limit: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = patient();
        limit(&mut limits);
        let listener = serve::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let mut catalogue = Catalogue::new("test");
        let traffic = Traffic::new(&mut catalogue);
        let connections = Connections::default().within(limits).counted_by(traffic);
        let tasks = Tasks::new();
        serve::spawn(&tasks, "server", listener, None, router, connections);
        Self {
            tasks,
            address,
            metrics: catalogue.publish().registry,
        }
    }

    async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    async fn connect_from(&self, last: u8) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        socket.bind(SocketAddr::new(from, 0)).unwrap();
        Client(socket.connect(self.address).await.unwrap())
    }

    /// A new connection, as soon as there is a place for it.
    async fn served_at_last(&self) -> Client {
        within_patience(async {
            loop {
                let mut client = self.connect().await;
                if client.asks().await.is_ok() {
                    return client;
                }
            }
        })
        .await
    }

    /// Waits for this line among the metrics.
    async fn counts(&self, line: &str) {
        let counted = async {
            loop {
                let mut text = String::new();
                prometheus_client::encoding::text::encode(&mut text, &self.metrics).unwrap();
                if text.lines().any(|found| found == line) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(
            tokio::time::timeout(PATIENCE, counted).await.is_ok(),
            "not counted: {line}"
        );
    }

    async fn counts_cut(&self, reason: &str, number: u64) {
        let name = "test_connections_cut_total";
        let line = format!("{name}{{reason=\"{reason}\"}} {number}");
        self.counts(&line).await;
    }

    async fn counts_refused(&self, reason: &str) {
        let name = "test_connections_refused_total";
        self.counts(&format!("{name}{{reason=\"{reason}\"}} 1"))
            .await;
    }

    async fn stop(self) {
        self.tasks.shutdown().cancel();
        self.tasks.finished(serve::DRAIN).await.unwrap();
    }
}

async fn within_patience<T>(waited_for: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, waited_for).await;
    waited.expect("this must happen, and did not")
}

/// The server answers each of these clients.
async fn all_ask(open: &mut [Client]) {
    for client in open {
        client.asks().await.unwrap();
    }
}

struct Client(TcpStream);

impl Client {
    async fn says(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.write_all(bytes).await.unwrap();
        self
    }

    /// Waits for the server to close the connection; returns what it sent before.
    async fn is_closed(&mut self) -> String {
        let mut said = Vec::new();
        // A reset also closes the connection.
        let _end = within_patience(self.0.read_to_end(&mut said)).await;
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Sends a request on the open connection and reads the answer.
    async fn asks(&mut self) -> io::Result<()> {
        self.0.write_all(WHOLE).await?;
        self.hears(b"hello from the test").await
    }

    /// Reads until the server has sent this.
    async fn hears(&mut self, expected: &[u8]) -> io::Result<()> {
        let mut heard: Vec<u8> = Vec::new();
        let mut buffer = [0; 4096];
        while !heard.windows(expected.len()).any(|part| part == expected) {
            let read = within_patience(self.0.read(&mut buffer)).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            heard.extend(buffer.iter().take(read));
        }
        Ok(())
    }
}

#[tokio::test]
async fn connections_whose_headers_do_not_come_are_closed() {
    let server = Server::start(|limits| limits.head = SOON);
    for begun in [
        &b""[..],
        b"G",
        b"GET / HTTP/1.1\r\nhost: te",
        b"GET / HTTP/1.1\r\nhost: test\r\n",
        b"PRI * HTTP/2",
        PREFACE,
    ] {
        server.connect().await.says(begun).await.is_closed().await;
    }
    server.counts_cut("head", 6).await;
    server.stop().await;
}

#[tokio::test]
async fn the_headers_of_a_later_request_have_a_deadline_too() {
    let server = Server::start(|limits| limits.head = SOON);
    let mut client = server.connect().await;
    client.asks().await.unwrap();
    client.says(b"GET / HTTP/1.1\r\nhost").await;
    client.is_closed().await;
    server.stop().await;
}

#[tokio::test]
async fn bodies_that_do_not_end_are_given_up_also_when_they_trickle() {
    let server = Server::start(|limits| limits.body = SOON);
    let begun = b"POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: 1000000\r\n\r\nsome";
    server.connect().await.says(begun).await.is_closed().await;

    let trickling = server.connect().await.0;
    let (mut read, mut write) = trickling.into_split();
    let trickle = tokio::spawn(async move {
        let begun =
            b"POST /echo HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n".as_slice();
        let mut sent = write.write_all(begun).await;
        while sent.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
            sent = write.write_all(b"1\r\nx\r\n").await;
        }
    });
    let mut said = Vec::new();
    let _end = within_patience(read.read_to_end(&mut said)).await;
    within_patience(trickle).await.unwrap();
    server.counts_cut("body", 2).await;
    server.stop().await;
}

#[tokio::test]
async fn past_the_bound_connections_are_refused_and_the_open_ones_are_served() {
    let server = Server::start(|limits| limits.connections = 3);
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(server.connect().await);
    }
    all_ask(&mut open).await;
    let mut refused = server.connect().await;
    assert_eq!(refused.is_closed().await, "");
    all_ask(&mut open).await;
    server.counts_refused("all").await;
    open.truncate(2);
    server.served_at_last().await;
    server.stop().await;
}

/// Like pods that hold as many connections as they can, and a kubelet that probes.
#[tokio::test]
async fn clients_with_many_connections_do_not_keep_out_one_with_few() {
    let server = Server::start(|limits| {
        limits.connections = 4;
        limits.per_client = 2;
    });
    let mut open = Vec::new();
    for last in [2, 2, 3, 3] {
        let mut client = server.connect_from(last).await;
        client.asks().await.unwrap();
        open.push(client);
    }
    let mut few = server.connect_from(4).await;
    few.asks().await.unwrap();
    server.counts_cut("displaced", 1).await;
    server.counts("test_connections 4").await;
    open.remove(2).is_closed().await;
    all_ask(&mut open).await;
    few.asks().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_request_under_way_is_answered_before_its_connection_makes_place() {
    let (arrived, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (arrived, go) = (arrived.clone(), go.clone());
        async move || {
            arrived.notify_one();
            go.notified().await;
            "hello from the test"
        }
    };
    let router = router().route("/slow", get(slow));
    let server = Server::of(router, |limits| limits.connections = 2);
    let mut many = [server.connect_from(2).await, server.connect_from(2).await];
    let [first, _second] = &mut many;
    first
        .says(b"GET /slow HTTP/1.1\r\nhost: test\r\n\r\n")
        .await;
    within_patience(arrived.notified()).await;
    server.counts("test_connections 2").await;
    let mut few = server.connect_from(3).await;
    few.asks().await.unwrap();
    go.notify_one();
    assert!(first.is_closed().await.ends_with("hello from the test"));
    server.stop().await;
}

#[tokio::test]
async fn one_client_cannot_take_the_places_of_others() {
    let server = Server::start(|limits| limits.per_client = 2);
    let mut open = [server.connect_from(2).await, server.connect_from(2).await];
    all_ask(&mut open).await;
    assert_eq!(server.connect_from(2).await.is_closed().await, "");
    server.connect_from(3).await.asks().await.unwrap();
    server.counts_refused("client").await;
    server.stop().await;
}

/// Like kube-scheduler's kept connections: the deadline for headers passes many times between requests.
#[tokio::test]
async fn a_kept_connection_outlives_the_deadline_for_headers_and_not_the_one_for_idling() {
    let server = Server::start(|limits| limits.head = SOON);
    let mut kept = server.connect().await;
    kept.asks().await.unwrap();
    for _ in 0..3 {
        server.connect().await.is_closed().await;
    }
    kept.asks().await.unwrap();
    server.stop().await;

    let server = Server::start(|limits| limits.idle = SOON);
    let mut kept = server.connect().await;
    kept.asks().await.unwrap();
    kept.is_closed().await;
    server.stop().await;
}

/// Like the dashboard's stream of events.
#[tokio::test]
async fn an_answer_that_goes_on_is_not_cut() {
    for request in [WHOLE.to_vec(), [opening(&[]), get_on(1)].concat()] {
        let (tell, told) = tokio::sync::mpsc::channel::<Result<&'static str, Infallible>>(1);
        let told = std::sync::Mutex::new(Some(told));
        let events = move || {
            let told = told.lock().unwrap().take().unwrap();
            let stream = futures::stream::unfold(told, async |mut told| {
                told.recv().await.map(|item| (item, told))
            });
            std::future::ready(Body::from_stream(stream))
        };
        let events = Arc::new(events);
        let router = Router::new().route("/", get(move || events()));
        let server = Server::of(router, |limits| {
            limits.head = SOON;
            limits.idle = SOON;
            limits.body = SOON;
            limits.stall = SOON;
        });
        let mut viewer = server.connect().await;
        viewer.says(&request).await;
        for news in ["first", "second", "third"] {
            tell.send(Ok(news)).await.unwrap();
            viewer.hears(news.as_bytes()).await.unwrap();
            // When this connection is closed, every deadline has passed.
            server.connect().await.is_closed().await;
        }
        drop(viewer);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_cut() {
    let server = Server::start(|limits| limits.stall = SOON);
    let mut deaf = server.connect().await;
    deaf.says(b"GET /flood HTTP/1.1\r\nhost: test\r\n\r\n")
        .await;
    server.counts_cut("write", 1).await;
    server.counts("test_connections 0").await;
    server.stop().await;
}

/// With HTTP/2 the client grants a window for the bytes of an answer. Bytes beyond it wait inside hyper, where no
/// handler sees them.
#[tokio::test]
async fn a_client_of_http2_that_does_not_take_its_answer_is_cut() {
    let server = Server::start(|limits| limits.stall = SOON);
    for (cut, taken) in [(1, 0), (2, 1)] {
        let mut deaf = server.connect().await;
        deaf.says(&opening(&[0, INITIAL_WINDOW_SIZE, 0, 0, 0, taken]))
            .await;
        deaf.says(&get_on(1)).await;
        server.counts_cut("write", cut).await;
        server.counts("test_connections 0").await;
    }
    server.stop().await;
}

#[tokio::test]
async fn headers_past_the_bound_are_refused_before_they_end() {
    let server = Server::start(|_| ());
    let mut head = b"GET / HTTP/1.1\r\nhost: test\r\nlong: ".to_vec();
    head.resize(15 * 1024, b'x');
    let mut client = server.connect().await;
    client.says(&head).await.says(b"\r\n\r\n").await;
    client.hears(b"hello from the test").await.unwrap();

    head.resize(16 * 1024, b'x');
    let mut client = server.connect().await;
    let answer = client.says(&head).await.is_closed().await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    server.stop().await;
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u8 = 4;

/// POST or GET of `/echo` or `/`, encoded with HPACK.
fn request(method: u8, path: &str) -> Vec<u8> {
    let mut block = vec![method, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(b"\x41\x04test");
    block
}

/// The beginning of an HTTP/2 connection.
fn opening(settings: &[u8]) -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, settings)].concat()
}

/// The whole GET of `/`.
fn get_on(stream: u8) -> Vec<u8> {
    let flags = END_HEADERS | END_STREAM;
    frame(HEADERS, flags, stream, &request(0x82, "/"))
}

#[tokio::test]
async fn a_slow_stream_is_given_up_while_others_on_its_connection_are_served() {
    let server = Server::start(|limits| limits.body = SOON);
    let mut client = server.connect().await;
    client.says(&opening(&[])).await;
    let unfinished = frame(HEADERS, END_HEADERS, 1, &request(0x83, "/echo"));
    client.says(&unfinished).await;
    server.counts_cut("body", 1).await;
    client.says(&get_on(3)).await;
    client.hears(b"hello from the test").await.unwrap();
    client.says(&frame(PING, 0, 0, b"still on")).await;
    client.hears(b"still on").await.unwrap();
    drop(client);
    server.stop().await;
}

/// Go clients send pings on idle connections: these must not count as unfinished headers.
#[tokio::test]
async fn pings_on_an_idle_connection_do_not_end_it() {
    let server = Server::start(|limits| limits.head = SOON);
    let mut client = server.connect().await;
    client.says(&opening(&[])).await;
    for stream in [1, 3] {
        client.says(&get_on(stream)).await;
        client.hears(b"hello from the test").await.unwrap();
        client.says(&frame(PING, 0, 0, b"still on")).await;
        client.hears(b"still on").await.unwrap();
        server.connect().await.is_closed().await;
    }
    drop(client);
    server.stop().await;
}
