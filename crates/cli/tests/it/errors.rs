//! What every command that queries a cluster prints when it fails: no cluster, no rights, unknown names, an old server,
//! a closed pipe. The programs themselves list the commands.

use std::path::Path;
use std::process::{Command as Process, Stdio};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::{Json, Router};
use gpushare_apiserver::Server;
use serde_json::json;

use crate::cluster::Cluster;
use crate::commands::{self, Named};
use crate::said::object;
use crate::why::{node, share, waiting};

fn complaint(cluster: &Cluster, command: &Named, call: &[&str], kubeconfig: &Path) -> String {
    let mut run = command.command(cluster, call, kubeconfig);
    let output = run.assert().code(1).get_output().clone();
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: "), "{text}");
    text
}

/// Asserts that every command that queries a cluster fails with this complaint when these flags are added.
fn all_complain(cluster: &Cluster, flags: &[&str], kubeconfig: &Path, part: &str) {
    for (command, call) in commands::that_ask() {
        let call = [call, flags].concat();
        let text = complaint(cluster, &command, &call, kubeconfig);
        assert!(text.contains(part), "{} {call:?}: {text}", command.name());
    }
}

/// A node, and a pod that waits.
async fn fill(cluster: &Cluster) {
    cluster.add_node(&node("a", &[16_384])).await;
    cluster.add_pod(&waiting("p", &share(1))).await;
}

/// The same with budgets, and a user with a token.
async fn cluster() -> Cluster {
    let cluster = Cluster::with_budgets(&json!({"token": "t"})).await;
    fill(&cluster).await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_kubeconfig_every_command_says_what_to_give() {
    let cluster = cluster().await;
    let part = "cannot find a cluster: give --kubeconfig or set KUBECONFIG";
    all_complain(&cluster, &[], Path::new("/nowhere/kubeconfig"), part);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_not_there_is_named() {
    let cluster = cluster().await;
    let flags = ["--context", "elsewhere"];
    all_complain(&cluster, &flags, &cluster.kubeconfig(), "elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_is_not_there_is_named_and_not_passed_over() {
    let cluster = cluster().await;
    let (flags, part) = (["--user", "somebody"], "no user \"somebody\"");
    all_complain(&cluster, &flags, &cluster.kubeconfig(), part);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_says_is_told_without_the_clients_own_words() {
    let cluster = cluster().await;
    for command in commands::that_run() {
        if command.words() == ["cards"] {
            let call = ["-l", "no label=="];
            let text = complaint(&cluster, &command, &call, &cluster.kubeconfig());
            assert!(text.contains("no label=="), "{text}");
            assert!(!text.contains("Status {"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_every_command_says_what_it_could_not_do() {
    let cluster = cluster().await;
    // Nothing listens on port 1.
    let gone = cluster.kubeconfig_for("http://127.0.0.1:1");
    for (command, call) in commands::that_ask() {
        let text = complaint(&cluster, &command, call, &gone);
        let remedy = if command.asks_timekeeper() {
            "give --timekeeper-ca"
        } else {
            "check the kubeconfig"
        };
        assert!(
            text.starts_with("error: cannot ") && text.contains(remedy),
            "{} {call:?}: {text}",
            command.name()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_not_waited_for_longer_than_was_asked() {
    let cluster = cluster().await;
    // It accepts connections but never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let silent_one = cluster.kubeconfig_for(&url);
    for (command, call) in commands::that_ask() {
        if call.contains(&"--watch") {
            continue;
        }
        let call = [call, &["--request-timeout", "200ms"]].concat();
        complaint(&cluster, &command, &call, &silent_one);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rights_every_command_names_the_right_that_is_missing() {
    for kind in ["nodes", "pods"] {
        let cluster = cluster().await;
        cluster.forbid(kind);
        for (command, call) in commands::that_ask() {
            // These read neither nodes nor pods.
            if command.words().first() == Some(&"budget") || call == ["deployment/web"] {
                continue;
            }
            let text = complaint(&cluster, &command, call, &cluster.kubeconfig());
            let listing = [
                format!("you may list {kind}"),
                format!("you may list and watch {kind}"),
            ];
            // A single pod is read with get, not list.
            let named = if call == ["p"] && kind == "pods" {
                text.contains("that you may read it")
            } else {
                listing.iter().any(|right| text.contains(right))
            };
            assert!(named, "{} {call:?}: {text}", command.name());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rights_on_what_budgets_need_the_right_is_named() {
    for (kind, words, expected) in [
        (
            "gpubudgets.gpushare.io",
            ["budget", "show"],
            "you may list gpubudgets",
        ),
        ("configmaps", ["budget", "grant"], "give --timekeeper-ca"),
        (
            "configmaps",
            ["budget", "statement"],
            "give --timekeeper-ca",
        ),
    ] {
        let cluster = cluster().await;
        cluster.forbid(kind);
        let calls = commands::that_ask().into_iter();
        for (command, call) in calls.filter(|(command, _)| command.words() == words) {
            let text = complaint(&cluster, &command, call, &cluster.kubeconfig());
            assert!(text.contains(expected), "{words:?}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_named_with_where_to_look() {
    let cluster = cluster().await;
    for command in commands::that_run() {
        let cases: &[(&[&str], &str)] = match command.words().as_slice() {
            [] => &[(
                &["nosuch"],
                "there is no node \"nosuch\"; kubectl get nodes",
            )],
            ["cards"] => &[(&["nosuch"], "check its name")],
            ["why"] => &[
                (
                    &["nosuch"],
                    "there is no pod nosuch in the namespace default",
                ),
                (
                    &["-n", "nowhere", "p"],
                    "there is no pod p in the namespace nowhere",
                ),
                (&["deployment/nosuch"], "there is no deployment nosuch"),
                (&["-f", "nosuch.yaml"], "cannot read nosuch.yaml"),
            ],
            ["fit"] => &[(&["-f", "nosuch.yaml"], "cannot read nosuch.yaml")],
            ["simulate"] => &[
                (
                    &["--from-cluster", "-f", "nosuch.yaml"],
                    "cannot read nosuch.yaml",
                ),
                (
                    &[
                        "--nodes",
                        "nosuch.csv",
                        "--pods",
                        "nosuch.csv",
                        "--churn",
                        "1",
                    ],
                    "nosuch.csv",
                ),
            ],
            ["budget", "show"] => &[
                (
                    &["--budget", "nosuch"],
                    "there is no budget \"nosuch\"; budget show -A",
                ),
                (
                    &["-n", "nowhere"],
                    "cannot read the namespace \"nowhere\"; check its name",
                ),
            ],
            // The timekeeper's own errors about unknown names are tested with the budgets; the doctor reports what is
            // missing as a finding; the others look up no names.
            ["budget", "grant" | "statement"] | ["doctor" | "completion" | "version"] => &[],
            other => panic!("say here what {other:?} may not find"),
        };
        for (call, expected) in cases {
            let text = complaint(&cluster, &command, call, &cluster.kubeconfig());
            assert!(text.contains(expected), "{call:?}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_newer_kinds_is_told_from_a_broken_one() {
    // Like an old server, the embedded one knows neither budgets nor admission policies.
    let cluster = Cluster::with(Server::builder(), &json!({"token": "t"})).await;
    fill(&cluster).await;
    for (command, call) in commands::that_ask() {
        if call.contains(&"--watch") || call == ["deployment/web"] {
            continue;
        }
        let mut run = command.command(&cluster, call, &cluster.kubeconfig());
        let output = run.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let (code, expected) = match command.words().as_slice() {
            ["doctor"] => (1, "upgrade Kubernetes to 1.30 or newer"),
            ["budget", "show"] => (
                1,
                "this cluster knows no GpuBudget: apply gpushare's deploy/crd.yaml",
            ),
            ["budget", _] => (
                1,
                "cannot read the ConfigMap gpushare-system/gpushare-timekeeper-ca",
            ),
            _ => (0, ""),
        };
        assert_eq!(output.status.code(), Some(code), "{call:?}: {said}");
        assert!(said.contains(expected), "{call:?}: {said}");
    }
}

/// A server of Kubernetes 1.25 with nothing in it.
async fn old_server() -> String {
    let router = Router::new().fallback(async |request: Request| {
        let empty = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []});
        match request.uri().path() {
            "/version" => {
                let version = json!({"major": "1", "minor": "25+", "gitVersion": "v1.25.16", "gitCommit": "",
                    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
                (StatusCode::OK, Json(version))
            }
            "/api/v1/nodes" | "/api/v1/pods" => (StatusCode::OK, Json(empty)),
            path => {
                let message = format!("the server could not find the requested resource {path}");
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                    "reason": "NotFound", "message": message});
                (StatusCode::NOT_FOUND, Json(status))
            }
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_server_is_told_by_its_number() {
    let cluster = Cluster::start().await;
    let url = old_server().await;
    let old = cluster.kubeconfig_for(&url);
    let find = |words: &[&str]| {
        let mut all = commands::that_run().into_iter();
        all.find(|command| command.words() == words).unwrap()
    };
    let mut doctor = find(&["doctor"]).command(&cluster, &["-o", "json"], &old);
    let report = object(&mut doctor, 1);
    let server = &report["checks"][0];
    assert_eq!(server["status"], "fail");
    assert_eq!(server["message"], "version v1.25.16 is older than 1.30");
    // Commands that need only nodes and pods work there.
    for (words, call) in [
        (&[][..], &[][..]),
        (&["cards"], &[]),
        (&["fit"], &["--mem", "1"]),
    ] {
        find(words).command(&cluster, call, &old).assert().success();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_reading_hears_no_complaint() {
    let nodes: Vec<_> = (0..200)
        .map(|number| node(&format!("n{number}"), &[16_384; 8]))
        .collect();
    let cluster = Cluster::of_nodes(&nodes).await;
    for call in [&["cards", "-o", "json"][..], &["cards", "--watch"]] {
        let mut child = Process::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
            .args(call)
            .env("KUBECONFIG", cluster.kubeconfig())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(
            output.stderr.is_empty() && output.status.success(),
            "{call:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn every_command_has_a_help_text_with_an_example() {
    let all = commands::all();
    let names: Vec<&str> = all.iter().map(Named::name).collect();
    for name in ["kubectl-inspect-gpushare", "kubectl-gpushare-budget-grant"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // The plugin's own help is the list of commands, without examples.
    for command in all.iter().filter(|one| one.name() != "kubectl-gpushare") {
        let (name, text) = (command.name(), command.help());
        assert!(text.contains("Examples:"), "{name}: {text}");
        assert!(!text.contains('\u{1b}'), "{name} is coloured");
    }
}
