//! The extender as a process.

use gpushare_testkit::http;

use super::{Running, on_an_api_server, role};

fn start(flags: &[&str]) -> Running {
    let common = ["--listen", "127.0.0.1:0", "--log-format", "json"];
    Running::start(role("extender", &[&common, flags].concat()), "listen")
}

/// Requests a connection that stays open, and reads until the server closes it nevertheless.
fn ask_and_wait_for_the_end(extender: &Running) -> String {
    let body = br#"{"Pod":{"metadata":{"uid":"u"}},"NodeNames":["n1"]}"#;
    let kept = [("Connection", "keep-alive")];
    let request = "POST /gpushare-scheduler/filter";
    let answer = http::blocking(http::send(&extender.address, request, &kept, body));
    answer.unwrap().text()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_becomes_ready_and_ends_with_success_on_sigterm() {
    on_an_api_server(|kubeconfig| {
        let extender = start(&["--kubeconfig", kubeconfig, "--leader-elect=false"]);
        extender.until_ready();
        assert!(extender.is("/healthz", 200));
        extender.terminate();
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
        let first = start(&flags);
        first.until_ready();
        let second = start(&flags);
        assert!(second.is("/healthz", 200));
        assert!(second.is("/readyz", 503));
        // A scheduler that keeps its connection to the wrong replica is made to connect again.
        let answer = ask_and_wait_for_the_end(&second);
        assert!(answer.contains("does not lead"), "{answer}");
        assert!(first.is("/readyz", 200));
        first.terminate();
        second.until_ready();
        second.terminate();
    })
    .await;
}
