//! The webhook as a process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpushare_testkit::process::binary;
use gpushare_testkit::until_blocking;
use tokio::net::{TcpSocket, TcpStream};

use super::{Running, on_an_api_server, role};

/// Files of a certificate and its key.
fn certificate(directory: &Path) -> (PathBuf, PathBuf) {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (directory.join("c.pem"), directory.join("k.pem"));
    std::fs::write(&cert, issued.cert.pem()).unwrap();
    std::fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
    (cert, key)
}

/// Runs a test with a ready webhook that has mounted certificates; `command` makes its command from the flags.
async fn with_a_webhook(
    command: fn(&[&str]) -> Command,
    test: impl FnOnce(&Running) + Send + 'static,
) {
    on_an_api_server(move |kubeconfig| {
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
        let webhook = Running::start(command(&flags.concat()), "admin_listen");
        webhook.until_ready();
        test(&webhook);
        webhook.terminate();
    })
    .await;
}

/// A webhook that may have 80 files open.
fn limited(flags: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .env_clear()
        .args(["-c", "ulimit -n 80 && exec \"$0\" \"$@\""])
        .arg(binary("gpushare-control"))
        .arg("webhook")
        .args(flags);
    command
}

/// A connection from 127.0.0.`last` on which the client sends nothing.
fn connect_from(last: u8, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let from = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(from).unwrap();
    let runtime = tokio::runtime::Handle::current();
    runtime.block_on(socket.connect(address)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_connections_than_file_descriptors_leave_some_for_everything_else() {
    with_a_webhook(limited, |webhook| {
        let listen = webhook.process.logged("listen").parse().unwrap();
        // Each connection has its own address, because one address may not open that many.
        let silent: Vec<_> = (1..=120).map(|last| connect_from(last, listen)).collect();
        let refused = r#"gpushare_webhook_connections_refused_total{reason="all"}"#;
        let metrics = until_blocking("somebody is refused", || {
            let metrics = webhook.get("/metrics").unwrap().text();
            if metrics.contains(refused) {
                Ok(metrics)
            } else {
                Err(metrics)
            }
        });
        assert!(!metrics.contains("reason=\"descriptors\""), "{metrics}");
        assert!(webhook.is("/readyz", 200));
        drop(silent);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_with_mounted_certificates_becomes_ready_and_ends_with_success_on_sigterm() {
    with_a_webhook(
        |flags| role("webhook", flags),
        |webhook| {
            assert!(webhook.is("/healthz", 200));
            assert!(webhook.is("/validate", 404));
        },
    )
    .await;
}
