//! The program as a process: how it starts, refuses to start, and ends.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpushare_apiserver::Server;

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

fn status_of(address: &str, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    answer.lines().next().map(str::to_owned)
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_becomes_ready_and_ends_with_success_on_sigterm() {
    let server = Server::start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    let work = tokio::task::spawn_blocking(move || {
        let kubeconfig = kubeconfig.to_str().unwrap();
        let flags = ["--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig];
        let json_logs = ["--log-format", "json"];
        let mut running = Running(
            extender(&[&flags[..], &json_logs].concat())
                .spawn()
                .unwrap(),
        );
        let mut logs = BufReader::new(running.0.stderr.take().unwrap()).lines();
        let address = logs
            .by_ref()
            .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap())
            .find_map(|line| line.get("listen")?.as_str().map(str::to_owned))
            .expect("the address is logged");
        // Read on, or the process would wait for a full pipe.
        let rest = std::thread::spawn(move || logs.map_while(Result::ok).count());

        let deadline = Instant::now() + PATIENCE;
        while status_of(&address, "/readyz").as_deref() != Some("HTTP/1.1 200 OK") {
            assert!(Instant::now() < deadline, "not ready in time");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(
            status_of(&address, "/healthz").as_deref(),
            Some("HTTP/1.1 200 OK")
        );
        let pid = running.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        let ended = running.0.wait().unwrap();
        rest.join().unwrap();
        assert!(ended.success(), "{ended}");
    });
    work.await.unwrap();
    server.shutdown().await;
}
