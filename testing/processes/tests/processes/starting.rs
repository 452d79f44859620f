//! Roles that cannot start, and what they say.

use super::{on_an_api_server, refused, role};

const NO_KUBECONFIG: [&str; 2] = ["--kubeconfig", "/nonexistent/config"];

#[test]
fn a_role_that_cannot_work_says_so_at_once() {
    for (name, flags, expected) in [
        // An exposed address without client certificates is refused, and the message names the flag that allows it.
        (
            "extender",
            &["--listen", "0.0.0.0:0"][..],
            "--insecure-listen",
        ),
        ("extender", &NO_KUBECONFIG, "/nonexistent/config"),
        ("webhook", &NO_KUBECONFIG, "/nonexistent/config"),
        (
            "webhook",
            &["--ca-overlap", "300h"],
            "--certificate-validity",
        ),
        (
            "webhook",
            &["--priority-min", "7", "--priority-max", "6"],
            "--priority-max",
        ),
        (
            "timekeeper",
            &["--database", "postgresql://h:port/"],
            "--database",
        ),
        ("timekeeper", &["--listen", "0.0.0.0:0"], "--tls-cert"),
        ("timekeeper", &NO_KUBECONFIG, "/nonexistent/config"),
    ] {
        let error = refused(&mut role(name, flags));
        assert!(error.contains(expected), "{name} {flags:?}: {error}");
    }
}

#[test]
fn a_sidecar_that_cannot_work_says_so_at_once() {
    for (flags, expected) in [
        (["--timekeeper", "http://t"], "https"),
        (["--timekeeper-ca", "nonsense"], "--timekeeper-ca"),
        (["--listen", "0.0.0.0:0"], "loopback"),
    ] {
        let error = refused(role("sidecar", &flags).envs([
            ("POD_NAMESPACE", "n"),
            ("POD_NAME", "p"),
            ("GPUSHARE_TIMEKEEPER", "https://t"),
            ("GPUSHARE_TIMEKEEPER_CA", "x"),
        ]));
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_is_reported_once() {
    on_an_api_server(|kubeconfig| {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let flags = ["--listen", &address, "--kubeconfig", kubeconfig];
        let error = refused(&mut role("extender", &flags));
        let told = format!("cannot listen on {address}");
        assert!(error.contains(&told), "{error}");
        assert_eq!(error.matches("in use").count(), 1, "{error}");
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
        let error = refused(&mut role("timekeeper", &flags.concat()));
        assert!(error.contains("/nonexistent/ledger.db"), "{error}");
    })
    .await;
}
