//! `kubectl gpushare budget` against an API server and a timekeeper.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use assert_cmd::Command;
use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use gpushare_daemon::Tasks;
use gpushare_daemon::serve::{self, Connections};
use gpushare_daemon::tls::{Tls, TlsFiles};
use gpushare_kube::gpu_budget::GpuBudget;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::Api;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::said::{assert_parts, assert_same_object, stderr, stdout};

const NAME: &str = "gpushare-timekeeper.gpushare-system.svc";

fn budget(name: &str, spec: &Value, status: &Value) -> Value {
    let mut budget = json!({
        "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget",
        "metadata": {"name": name}, "spec": spec,
    });
    if !status.is_null() {
        budget["status"] = status.clone();
    }
    budget
}

/// A cluster with two budgets and namespaces that pay from them.
pub(crate) async fn two_budgets(user: &Value) -> Cluster {
    let cluster = Cluster::with_budgets(user).await;
    let api: Api<GpuBudget> = Api::all(cluster.client());
    let ready = json!([{"type": "Ready", "status": "True", "reason": "Charged", "message": "",
        "lastTransitionTime": "2026-11-01T00:00:00Z"}]);
    let vision = budget(
        "vision",
        &json!({"amount": "20h", "parent": "research", "namespaces": {"team": "vision"},
            "period": {"kind": "Week", "timeZone": "Europe/Berlin"}}),
        &json!({"used": "12h30m", "usedSeconds": 45_000, "held": "5m", "heldSeconds": 300, "remaining": "7h25m",
            "remainingSeconds": 26_700, "exhaustsAt": "2026-11-20T10:00:00Z",
            "periodStart": "2026-11-15T23:00:00Z", "periodEnd": "2026-11-22T23:00:00Z", "conditions": ready}),
    );
    let fresh = budget(
        "fresh",
        &json!({"amount": 3600, "namespaces": {"names": ["new"]},
            "period": {"kind": "Rolling", "window": "7d"}, "whenExhausted": "ThrottleNew"}),
        &json!(null),
    );
    for budget in [vision, fresh] {
        cluster.create(api.clone(), &budget).await;
    }
    let api: Api<Namespace> = Api::all(cluster.client());
    for (name, team) in [("train", "vision"), ("new", "none"), ("free", "none")] {
        let labels = json!({"gpushare.io/team": team});
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        cluster.create(api.clone(), &namespace).await;
    }
    cluster
}

fn command(cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = cluster.gpushare(&["budget"]);
    command.args(arguments);
    command
}

fn printed(cluster: &Cluster, arguments: &[&str]) -> String {
    stdout(&mut command(cluster, arguments))
}

/// Asserts that the command fails with a complaint that has all these parts, and returns it.
#[track_caller]
fn refused(command: &mut Command, parts: &[&str]) -> String {
    let complaint = stderr(command, 1);
    assert_parts(&complaint, parts);
    complaint
}

#[tokio::test(flavor = "multi_thread")]
async fn all_budgets_are_a_table() {
    let cluster = two_budgets(&json!({})).await;
    insta::assert_snapshot!(printed(&cluster, &["show", "-A"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_shows_the_budget_that_pays_for_it() {
    let cluster = two_budgets(&json!({})).await;
    insta::assert_snapshot!("show_namespace", printed(&cluster, &["show", "train"]));
    insta::assert_snapshot!(
        "show_fresh",
        printed(&cluster, &["show", "--budget", "fresh"])
    );
    assert_eq!(
        printed(&cluster, &["show", "train"]),
        printed(&cluster, &["show", "-n", "train"])
    );
    assert_eq!(
        printed(&cluster, &["show", "free"]),
        "no budget pays for the namespace free: its GPU time is not limited\n"
    );
    // The kubeconfig's namespace.
    assert!(printed(&cluster, &["show"]).contains("the namespace default"));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_keeps_its_schema_and_yaml_says_the_same() {
    let cluster = two_budgets(&json!({})).await;
    let json = printed(&cluster, &["show", "-A", "-o", "json"]);
    insta::assert_snapshot!("show_json", json);
    let yaml = printed(&cluster, &["show", "-A", "-o", "yaml"]);
    assert_same_object(&json, &yaml);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_budget_from_being_shown_is_said() {
    let cluster = two_budgets(&json!({})).await;
    let mut unknown = command(&cluster, &["show", "--budget", "none"]);
    refused(&mut unknown, &["no budget \"none\"", "-A"]);
    let part = "cannot read the namespace \"nowhere\"";
    refused(&mut command(&cluster, &["show", "nowhere"]), &[part]);
    let old = Cluster::start().await;
    refused(&mut command(&old, &["show", "-A"]), &["deploy/crd.yaml"]);
    let mut nowhere = command(&cluster, &["show", "-A"]);
    let nowhere = nowhere.env("KUBECONFIG", "/nonexistent");
    refused(nowhere, &["cannot find a cluster"]);
}

/// A fake timekeeper that gives preset answers and records the requests.
pub(crate) struct Fake {
    url: String,
    files: TempDir,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: Tasks,
}

impl Fake {
    pub(crate) fn start(code: u16, body: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let names = [NAME, "localhost"].map(str::to_owned);
        let issued = rcgen::generate_simple_self_signed(names).unwrap();
        let write = |name: &str, text: String| {
            let path = files.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let tls = Tls::load(TlsFiles {
            certificate: write("ca.pem", issued.cert.pem()),
            key: write("key.pem", issued.signing_key.serialize_pem()),
            client_ca: None,
        });
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, body) = (Arc::clone(&asked), body.to_owned());
        let router = Router::new().fallback(async move |request: Request| {
            let token = request.headers().get("authorization").cloned();
            let token = token.map(|token| token.to_str().unwrap().to_owned());
            let (parts, sent) = request.into_parts();
            let sent = axum::body::to_bytes(sent, 10_000).await.unwrap();
            let sent = String::from_utf8_lossy(&sent).into_owned();
            let line = format!(
                "{} {} {} {sent}",
                parts.method,
                parts.uri,
                token.unwrap_or_default()
            );
            log.lock().unwrap().push(line);
            let code = StatusCode::from_u16(code).unwrap();
            (code, [("content-type", "application/json")], body).into_response()
        });
        let listener = serve::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!(
            "https://localhost:{}",
            listener.local_addr().unwrap().port()
        );
        let tasks = Tasks::new();
        let connections = Connections::default();
        serve::spawn(
            &tasks,
            "the server",
            listener,
            Some(tls.unwrap()),
            router,
            connections,
        );
        Self {
            url,
            files,
            asked,
            _tasks: tasks,
        }
    }

    fn ca(&self) -> PathBuf {
        self.files.path().join("ca.pem")
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn command(&self, cluster: &Cluster, arguments: &[&str]) -> Command {
        self.reached_by(command(cluster, arguments))
    }

    pub(crate) fn reached_by(&self, mut command: Command) -> Command {
        command
            .args(["--timekeeper", &self.url, "--timekeeper-ca"])
            .arg(self.ca());
        command
    }
}

pub(crate) const STATEMENT: &str = r#"{"namespace":"train","from":"2026-11-01T00:00:00Z","to":"2026-12-01T00:00:00Z","lines":[
    {"namespace":"train","pod":"big-0","podUid":"u1","from":"2026-11-01T00:00:00Z","to":"2026-11-01T02:00:00Z",
     "seconds":7200,"rate":"0.625","formula":"max/1","amount":"4500",
     "cards":[{"id":"GPU-1","model":"Tesla T4","memoryMiB":4096,"ofMemoryMiB":16384,"corePercent":0}]},
    {"namespace":"train","pod":"s","podUid":"u2","from":"2026-11-02T00:00:00Z","to":"2026-11-02T00:00:01Z",
     "seconds":1,"rate":"0.5","formula":"max/1","amount":"0.5"}],
    "totalSeconds":7201,"total":"4500.5"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_a_table_or_what_the_timekeeper_says() {
    let cluster = two_budgets(&json!({"token": "my-token"})).await;
    let fake = Fake::start(200, STATEMENT);
    let statement = ["statement", "-n", "train", "--month", "2026-11"];
    insta::assert_snapshot!("statement", stdout(&mut fake.command(&cluster, &statement)));
    let json = stdout(fake.command(&cluster, &statement).args(["-o", "json"]));
    let (printed, said): (Value, Value) = (
        serde_json::from_str(&json).unwrap(),
        serde_json::from_str(STATEMENT).unwrap(),
    );
    assert_eq!(printed, said);
    let of_budget = ["statement", "--budget", "vision", "-o", "csv"];
    let csv = stdout(&mut fake.command(&cluster, &of_budget));
    assert_eq!(csv, format!("{STATEMENT}\n"));
    stdout(&mut fake.command(&cluster, &["statement"]));
    let expected = [
        "GET /v1/namespaces/train/statement?format=json&month=2026-11 Bearer my-token ",
        "GET /v1/namespaces/train/statement?format=json&month=2026-11 Bearer my-token ",
        "GET /v1/budgets/vision/statement?format=csv Bearer my-token ",
        "GET /v1/namespaces/default/statement?format=json Bearer my-token ",
    ];
    assert_eq!(fake.asked(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_has_an_id_and_a_reason_and_no_author() {
    let cluster = two_budgets(&json!({"token": "my-token"})).await;
    let answer = json!({"id": "t-7", "budget": "vision", "amount": "72000", "author": "ada", "reason": "deadline",
        "periodStarts": "2026-11-15T23:00:00Z", "grantedAt": "2026-11-16T09:00:00Z"});
    let fake = Fake::start(201, &answer.to_string());
    let grant = [
        "grant", "vision", "20h", "--reason", "deadline", "--id", "t-7",
    ];
    assert_eq!(
        stdout(&mut fake.command(&cluster, &grant)),
        "granted 72000 GPU-seconds to vision for the period from 2026-11-15T23:00:00Z (author ada, id t-7)\n"
    );
    stdout(&mut fake.command(&cluster, &["grant", "vision", "60", "--reason", "r"]));
    let asked = fake.asked();
    let sent = r#"{"amount":"20h","id":"t-7","reason":"deadline"}"#;
    assert_eq!(
        asked[0],
        format!("POST /v1/budgets/vision/grants Bearer my-token {sent}")
    );
    assert!(asked[1].contains(r#"{"amount":60,"id":""#), "{asked:?}");
    // Without a reason no request is sent.
    let mut missing = fake.command(&cluster, &["grant", "vision", "20h"]);
    assert_parts(&stderr(&mut missing, 2), &["--reason"]);
    assert_eq!(fake.asked().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_timekeeper_refuses_is_told_with_its_words() {
    let cluster = two_budgets(&json!({"token": "my-token"})).await;
    let problem = |code: u16, reason: &str, message: &str| {
        json!({"code": code, "reason": reason, "message": message}).to_string()
    };
    for (code, body, expected) in [
        (
            403,
            problem(403, "Forbidden", "\"ada\" lacks the verb \"grant\""),
            "refuses: \"ada\" lacks the verb",
        ),
        (
            404,
            problem(404, "NoSuchBudget", "there is no budget"),
            "refuses: there is no budget",
        ),
        (
            404,
            problem(404, "NoSuchPath", "no such path"),
            "older than this program",
        ),
        (404, "page not found".to_owned(), "older than this program"),
        (
            401,
            problem(401, "Unauthenticated", "the token has expired"),
            "--as-service-account",
        ),
    ] {
        let fake = Fake::start(code, &body);
        let grant = ["grant", "vision", "20h", "--reason", "r", "--id", "t-7"];
        let said = refused(&mut fake.command(&cluster, &grant), &[expected]);
        assert!(!said.contains("--id t-7"), "{said}");
        refused(&mut fake.command(&cluster, &["statement"]), &[expected]);
    }
    let odd = Fake::start(200, "{}");
    let mut statement = odd.command(&cluster, &["statement"]);
    refused(&mut statement, &["another version"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_goes_only_to_who_proves_to_be_the_timekeeper() {
    let cluster = two_budgets(&json!({"token": "my-token"})).await;
    let (fake, other) = (Fake::start(200, STATEMENT), Fake::start(200, STATEMENT));
    let mut wrong = command(
        &cluster,
        &["statement", "--timekeeper", &fake.url, "--timekeeper-ca"],
    );
    refused(wrong.arg(other.ca()), &["cannot reach the timekeeper"]);
    let elsewhere = ["statement", "--timekeeper-name", "elsewhere.example"];
    refused(
        &mut fake.command(&cluster, &elsewhere),
        &["--timekeeper-name"],
    );
    // Without an answer it is unknown whether the grant was written.
    let mut grant = command(
        &cluster,
        &["grant", "b", "1h", "--reason", "r", "--id", "t-7"],
    );
    grant.args(["--timekeeper", &fake.url, "--timekeeper-ca"]);
    refused(grant.arg(other.ca()), &["try again with --id t-7"]);
    let plain = ["statement", "--timekeeper", "http://timekeeper.example"];
    refused(&mut command(&cluster, &plain), &["https://"]);
    assert_eq!(fake.asked(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_an_account_can_ask() {
    let cluster = two_budgets(&json!({})).await;
    let fake = Fake::start(200, STATEMENT);
    let mut alone = fake.command(&cluster, &["statement"]);
    refused(&mut alone, &["--as-service-account"]);
    let api: Api<ServiceAccount> = Api::namespaced(cluster.client(), "default");
    cluster
        .create(api, &json!({"metadata": {"name": "reader"}}))
        .await;
    let as_account =
        |account| fake.command(&cluster, &["statement", "--as-service-account", account]);
    stdout(&mut as_account("default/reader"));
    let asked = fake.asked();
    assert!(asked[0].contains("Bearer embedded."), "{asked:?}");
    let part = "cannot make a token for the service account default/nobody";
    refused(&mut as_account("default/nobody"), &[part]);
    refused(&mut as_account("reader"), &["NAMESPACE/NAME"]);
}

/// Puts our own kubectl first on the PATH.
fn with_kubectl(command: &mut Command, directory: &Path, script: &str) {
    let program = directory.join("kubectl");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", directory.display()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_address_kubectl_leads_to_the_service_and_the_cluster_says_whom_to_believe() {
    let cluster = two_budgets(&json!({"token": "my-token"})).await;
    let fake = Fake::start(200, STATEMENT);
    let directory = tempfile::tempdir().unwrap();
    let port = fake.url.rsplit(':').next().unwrap();
    let pid = directory.path().join("pid");
    let script = format!(
        "echo \"$@\" > {0}.args; echo $$ > {0}\necho 'Forwarding from 127.0.0.1:{port} -> 12352'\nexec sleep 600",
        pid.display()
    );
    let ask = |arguments: &[&str]| {
        let mut command = command(&cluster, arguments);
        with_kubectl(&mut command, directory.path(), &script);
        command
    };
    let parts = ["gpushare-timekeeper-ca", "--timekeeper-ca"];
    refused(&mut ask(&["statement"]), &parts);
    cluster.add_namespace("gpushare-system").await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "gpushare-system");
    let authority = fs::read_to_string(fake.ca()).unwrap();
    let published =
        json!({"metadata": {"name": "gpushare-timekeeper-ca"}, "data": {"ca.crt": authority}});
    cluster.create(api, &published).await;
    let printed = stdout(&mut ask(&["statement", "--context", "c"]));
    assert!(printed.contains("4500.5"), "{printed}");
    let arguments = fs::read_to_string(directory.path().join("pid.args")).unwrap();
    assert_eq!(
        arguments.trim(),
        "--context=c port-forward --address=127.0.0.1 --namespace gpushare-system service/gpushare-timekeeper :443"
    );
    // The forwarding does not outlive the program.
    let pid = fs::read_to_string(&pid).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_kubectl_cannot_lead_the_commands_to_type_are_told() {
    let cluster = two_budgets(&json!({"token": "my-token"})).await;
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(&cluster, &["statement"]);
    with_kubectl(
        &mut command,
        directory.path(),
        "echo 'Error: you may not' >&2; exit 1",
    );
    let parts = [
        "you may not",
        "kubectl port-forward",
        "--timekeeper https://localhost:8443",
    ];
    refused(&mut command, &parts);
}
