//! The program as a process: how it starts, refuses to start, and ends.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpushare_apiserver::Server;
use gpushare_ledger::store::sqlite::Sqlite;
use tokio::net::TcpSocket;

const PROGRAM: &str = env!("CARGO_BIN_EXE_gpushare-control");
const PATIENCE: Duration = Duration::from_mins(1);

/// Ends the process also when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _already_ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn extender(flags: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .arg("extender")
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn refused(flags: &[&str]) -> String {
    let output = extender(flags).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

fn answer_of(address: &str, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn an_exposed_address_without_client_certificates_is_refused_with_the_way_out() {
    let error = refused(&["--listen", "0.0.0.0:0"]);
    assert!(error.contains("--insecure-listen"), "{error}");
}

#[test]
fn without_an_api_server_to_talk_to_it_says_what_to_give() {
    let error = refused(&[
        "--listen",
        "127.0.0.1:0",
        "--kubeconfig",
        "/nonexistent/config",
    ]);
    assert!(error.contains("/nonexistent/config"), "{error}");
}

/// A running program of ours and where it listens.
struct Process {
    running: Running,
    address: String,
    /// What it logged before that.
    logged: Vec<serde_json::Value>,
    logs: std::thread::JoinHandle<usize>,
}

impl Process {
    fn start(flags: &[&str]) -> Self {
        let common = ["--listen", "127.0.0.1:0", "--log-format", "json"];
        Self::of(extender(&[&common[..], flags].concat()), "listen")
    }

    /// A process that logs where it listens in plain HTTP under this name.
    fn of(mut command: Command, listen: &str) -> Self {
        let mut running = Running(command.spawn().unwrap());
        let mut logs = BufReader::new(running.0.stderr.take().unwrap()).lines();
        let mut logged: Vec<serde_json::Value> = Vec::new();
        let address = logs
            .by_ref()
            .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap())
            .find_map(|line| {
                let found = line.get(listen).and_then(|found| found.as_str());
                let found = found.map(str::to_owned);
                logged.push(line);
                found
            })
            .unwrap();
        // Read on, or the process would wait for a full pipe.
        let logs = std::thread::spawn(move || logs.map_while(Result::ok).count());
        Self {
            running,
            address,
            logged,
            logs,
        }
    }

    /// What was logged at the start under this name.
    fn logged(&self, name: &str) -> &str {
        let mut found = self
            .logged
            .iter()
            .filter_map(|line| line.get(name)?.as_str());
        found.next().unwrap()
    }

    fn is(&self, path: &str, code: u16) -> bool {
        let answer = answer_of(&self.address, path);
        answer.is_some_and(|answer| answer.starts_with(&format!("HTTP/1.1 {code}")))
    }

    fn says(&self, path: &str, text: &str) -> bool {
        let answer = answer_of(&self.address, path);
        answer.is_some_and(|answer| answer.contains(text))
    }

    /// Asks for the connection to be kept, and reads until it ends nevertheless.
    fn ask_and_wait_for_the_end(&self, path: &str) -> String {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = r#"{"Pod":{"metadata":{"uid":"u"}},"NodeNames":["n1"]}"#;
        let length = body.len();
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n{body}");
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    fn until_ready(&self) {
        self.until("it is ready", |process| process.is("/readyz", 200));
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        until(what, || holds(self));
    }

    fn terminate(mut self) {
        let pid = self.running.0.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.unwrap().success());
        let ended = self.running.0.wait().unwrap();
        self.logs.join().unwrap();
        assert!(ended.success(), "{ended}");
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

async fn on_an_api_server(test: impl FnOnce(&str) + Send + 'static) {
    let server = Server::start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    let work = tokio::task::spawn_blocking(move || test(kubeconfig.to_str().unwrap()));
    work.await.unwrap();
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_becomes_ready_and_ends_with_success_on_sigterm() {
    on_an_api_server(|kubeconfig| {
        let flags = ["--kubeconfig", kubeconfig, "--leader-elect=false"];
        let extender = Process::start(&flags);
        extender.until_ready();
        assert!(extender.is("/healthz", 200));
        extender.terminate();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_is_reported_once() {
    on_an_api_server(|kubeconfig| {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = refused(&["--listen", &address, "--kubeconfig", kubeconfig]);
        let told = format!("cannot listen on {address}");
        assert!(error.contains(&told), "{error}");
        assert_eq!(error.matches("in use").count(), 1, "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_replicas_one_is_ready_and_the_other_takes_over_when_it_ends() {
    on_an_api_server(|kubeconfig| {
        let flags = [
            ["--kubeconfig", kubeconfig],
            ["--lease-namespace", "kube-system"],
            ["--lease-duration", "8s"],
            ["--lease-renew-deadline", "6s"],
            ["--lease-retry", "500ms"],
            ["--bind-timeout", "100ms"],
        ]
        .concat();
        let first = Process::start(&flags);
        first.until_ready();
        let second = Process::start(&flags);
        assert!(second.is("/healthz", 200));
        assert!(second.is("/readyz", 503));
        // A scheduler that keeps its connection to the wrong replica is made to connect anew.
        let answer = second.ask_and_wait_for_the_end("/gpushare-scheduler/filter");
        assert!(answer.contains("does not lead"), "{answer}");
        assert!(first.is("/readyz", 200));
        first.terminate();
        second.until_ready();
        second.terminate();
    })
    .await;
}

fn webhook(flags: &[&str]) -> Command {
    role("webhook", flags)
}

fn role(role: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .arg(role)
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

#[test]
fn a_webhook_that_cannot_work_says_so_at_once() {
    for (flags, expected) in [
        (
            vec!["--kubeconfig", "/nonexistent/config"],
            "/nonexistent/config",
        ),
        (vec!["--ca-overlap", "300h"], "--certificate-validity"),
        (
            vec!["--priority-min", "7", "--priority-max", "6"],
            "--priority-max",
        ),
    ] {
        let output = webhook(&flags).output().unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}

/// Files of a certificate and its key.
fn certificate(directory: &Path) -> (PathBuf, PathBuf) {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (directory.join("c.pem"), directory.join("k.pem"));
    std::fs::write(&cert, issued.cert.pem()).unwrap();
    std::fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
    (cert, key)
}

/// Connections that nobody speaks on, to a process that may have 80 files open.
fn connect_from(last: u8, address: SocketAddr) -> tokio::net::TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let from = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(from).unwrap();
    let runtime = tokio::runtime::Handle::current();
    runtime.block_on(socket.connect(address)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_connections_than_file_descriptors_leave_some_for_everything_else() {
    on_an_api_server(|kubeconfig| {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = certificate(directory.path());
        let limited = [
            "-c",
            "ulimit -n 80 && exec \"$0\" \"$@\"",
            PROGRAM,
            "webhook",
        ];
        let flags = [
            ["--listen", "127.0.0.1:0"],
            ["--admin-listen", "127.0.0.1:0"],
            ["--log-format", "json"],
            ["--kubeconfig", kubeconfig],
            ["--tls-cert", cert.to_str().unwrap()],
            ["--tls-key", key.to_str().unwrap()],
        ];
        let mut command = Command::new("sh");
        command
            .env_clear()
            .args(limited)
            .args(flags.concat())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let webhook = Process::of(command, "admin_listen");
        webhook.until_ready();
        let listen = webhook.logged("listen").parse().unwrap();
        // Each from an address of its own: one address alone may not have that many.
        let silent: Vec<_> = (1..=120).map(|last| connect_from(last, listen)).collect();
        let refused = r#"gpushare_webhook_connections_refused_total{reason="all"}"#;
        let deadline = Instant::now() + PATIENCE;
        let metrics = loop {
            let metrics = answer_of(&webhook.address, "/metrics").unwrap();
            if metrics.contains(refused) {
                break metrics;
            }
            assert!(Instant::now() < deadline, "nobody was refused: {metrics}");
        };
        assert!(!metrics.contains("reason=\"descriptors\""), "{metrics}");
        assert!(webhook.is("/readyz", 200));
        drop(silent);
        webhook.terminate();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_with_mounted_certificates_becomes_ready_and_ends_with_success_on_sigterm() {
    on_an_api_server(|kubeconfig| {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = certificate(directory.path());
        let flags = [
            ["--listen", "127.0.0.1:0"],
            ["--admin-listen", "127.0.0.1:0"],
            ["--log-format", "json"],
            ["--kubeconfig", kubeconfig],
            ["--tls-cert", cert.to_str().unwrap()],
            ["--tls-key", key.to_str().unwrap()],
        ];
        let webhook = Process::of(webhook(&flags.concat()), "admin_listen");
        webhook.until_ready();
        assert!(webhook.is("/healthz", 200));
        assert!(webhook.is("/validate", 404));
        webhook.terminate();
    })
    .await;
}

#[test]
fn a_timekeeper_that_cannot_work_says_so_at_once() {
    for (flags, expected) in [
        (vec!["--database", "postgresql://h:port/"], "--database"),
        (vec!["--listen", "0.0.0.0:0"], "--tls-cert"),
        (
            vec!["--kubeconfig", "/nonexistent/config"],
            "/nonexistent/config",
        ),
    ] {
        let output = role("timekeeper", &flags).output().unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timekeeper_becomes_ready_without_budgets_and_ends_with_success_on_sigterm() {
    on_an_api_server(|kubeconfig| {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("ledger.db");
        let flags = [
            ["--listen", "127.0.0.1:0"],
            ["--admin-listen", "127.0.0.1:0"],
            ["--kubeconfig", kubeconfig],
            // It is Ready when it writes, and nobody else wants to.
            ["--log-format=json", "--leader-elect=false"],
            ["--database", database.to_str().unwrap()],
        ];
        let command = role("timekeeper", &flags.concat());
        let timekeeper = Process::of(command, "admin_listen");
        timekeeper.until_ready();
        assert!(timekeeper.is("/healthz", 200));
        timekeeper.terminate();
        assert!(database.exists());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timekeeper_whose_database_cannot_be_opened_says_which_and_why() {
    on_an_api_server(|kubeconfig| {
        let flags = [
            ["--listen", "127.0.0.1:0"],
            ["--kubeconfig", kubeconfig],
            ["--database", "/nonexistent/ledger.db"],
        ];
        let output = role("timekeeper", &flags.concat()).output().unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("/nonexistent/ledger.db"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timekeeper_with_a_damaged_ledger_stays_and_is_not_ready_until_the_file_is_restored() {
    on_an_api_server(|kubeconfig| {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("ledger.db");
        std::fs::write(&database, "this is no ledger\n".repeat(1_000)).unwrap();
        let flags = [
            ["--listen", "127.0.0.1:0"],
            ["--admin-listen", "127.0.0.1:0"],
            ["--kubeconfig", kubeconfig],
            ["--log-format=json", "--leader-elect=false"],
            ["--interval", "100ms"],
            ["--database", database.to_str().unwrap()],
        ];
        let timekeeper = Process::of(role("timekeeper", &flags.concat()), "admin_listen");
        timekeeper.until("it says what is wrong", |process| {
            process.is("/readyz", 503) && process.says("/readyz", "damaged")
        });
        assert!(timekeeper.says("/readyz", "restore"));
        assert!(timekeeper.is("/healthz", 200));
        assert!(timekeeper.says("/metrics", "gpushare_timekeeper_ledger_healthy 0"));
        // A missing file is not made, and an empty one not filled: somebody is about to put a copy there.
        std::fs::remove_file(&database).unwrap();
        timekeeper.until("it misses the file", |process| {
            process.says("/readyz", "cannot open")
        });
        assert!(!database.exists());
        std::fs::write(&database, "").unwrap();
        timekeeper.until("it finds nothing in the file", |process| {
            process.says("/readyz", "there is no ledger in it")
        });
        assert_eq!(std::fs::metadata(&database).unwrap().len(), 0);
        let copy = directory.path().join("copy.db");
        drop(Sqlite::open(&copy).unwrap());
        until("the copy is closed", || {
            !copy.with_extension("db-wal").exists()
        });
        std::fs::rename(copy, &database).unwrap();
        timekeeper.until_ready();
        assert!(timekeeper.says("/metrics", "gpushare_timekeeper_ledger_healthy 1"));
        timekeeper.terminate();
    })
    .await;
}
