//! A real cluster with a timekeeper whose ledger has the usage of two teams, and users with rights. The real API server
//! decides who may ask the timekeeper's API for what.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::ensure;
use axum::http::{HeaderMap, Request, StatusCode, header};
use gpushare_core::PodUid;
use gpushare_ledger::Seconds;
use gpushare_ledger::journal::Leg;
use gpushare_ledger::meter::Charge;
use gpushare_ledger::money::Rate;
use gpushare_ledger::period::{Calendar, Schedule, Span};
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Batch, Change, Ledger, Settlement};
use gpushare_rig::{Options, Rig};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kubectl::{Kubectl, wait_for_account};
use crate::process::Process;
use crate::world::{binary, install, issue, kubeconfigs, launch, log_of, without_pods};
use crate::{manifest, wait};

const ACCOUNT: &str = "gpushare-timekeeper";
const ADDRESS: &str = "https://localhost:12352";
const ADMIN: &str = "127.0.0.1:12353";
pub const OWN: &str = "team-own";
pub const OTHER: &str = "team-other";
/// A budget that pays for no namespace.
pub const SPARE: &str = "team-spare";
/// For how long a pod of each team held half a card, according to the ledger.
pub const HELD: Seconds = 600;
const DAY: Seconds = 86_400;

#[derive(Debug)]
pub struct Teller {
    _timekeeper: Process,
    pub rig: Rig,
    directory: TempDir,
    /// The month in which the pods ran.
    pub month: String,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    /// An editor of the own namespace, with a token for the API server.
    Tenant,
    /// A pod of the own namespace, with a token for the timekeeper alone.
    Pod,
    /// A user who manages budgets.
    Chief,
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn good(&self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub fn refused(&self, code: u16) -> String {
        assert_eq!(self.status, code, "{self:?}");
        let problem: Value = serde_json::from_str(&self.body).expect("JSON");
        problem["message"].as_str().expect("a message").to_owned()
    }
}

impl Teller {
    pub fn start() -> Self {
        let rig = Rig::start(Options::default()).expect("the rig starts");
        install(&rig, &["rbac.yaml", "crd.yaml"]);
        install(&rig, &["timekeeper.yaml", "budget-access.yaml"]);
        without_pods(&rig, ACCOUNT);
        people(&rig);
        let directory = tempfile::tempdir().expect("a directory");
        kubeconfigs(&rig, directory.path(), &[ACCOUNT]).expect("kubeconfigs");
        let month = month();
        tokio::runtime::Runtime::new()
            .expect("a runtime")
            .block_on(seed(&directory, month.start));
        // The timekeeper's clock stands still, so that no month ends during a test.
        let now = Timestamp::from_second(month.start + 10 * DAY).expect("a moment");
        fs::write(directory.path().join("now"), now.to_string()).expect("written");
        let teller = Self {
            _timekeeper: timekeeper(&rig, &directory),
            rig,
            directory,
            month: now.strftime("%Y-%m").to_string(),
        };
        teller.wait_until_charged();
        teller
    }

    fn wait_until_charged(&self) {
        wait::until_ready(&self.rig, "the timekeeper", ADMIN);
        // Once the timekeeper reports what remains, it leads and has charged everything.
        for budget in [OWN, OTHER] {
            wait::until("the timekeeper to say how budgets stand", || {
                let status = self.rig.get(&format!("gpubudget {budget}"))?["status"].take();
                ensure!(!status["remainingSeconds"].is_null(), "{status}");
                Ok(())
            });
        }
    }

    /// What the timekeeper has logged.
    pub fn logged(&self) -> String {
        log_of(&self.rig, ACCOUNT)
    }

    pub fn token(&self, who: Who) -> String {
        match who {
            Who::Tenant => self.token_of(OWN, "tenant"),
            Who::Pod => self.token_of(OWN, "default --audience=gpushare-timekeeper"),
            Who::Chief => self.token_of("gpushare-system", "chief"),
        }
    }

    /// A new token of an account. Flags for `kubectl create token` may follow the account's name.
    pub fn token_of(&self, namespace: &str, account: &str) -> String {
        let create = format!("create token {account} --namespace={namespace}");
        let token = self.rig.ctl(&create).expect("a token");
        token.trim().to_owned()
    }

    pub fn get(&self, token: &str, path: &str) -> Answer {
        self.send(token, Request::get(path), "")
    }

    pub fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.send(token, Request::post(path), &body.to_string())
    }

    /// As [`Self::get`], but the connection may end without an answer.
    pub fn try_get(&self, token: &str, path: &str) -> Result<Answer, kube::Error> {
        self.try_ask(ADDRESS, signed(token, Request::get(path), ""))
    }

    /// Sends a request over TLS, and trusts the published certificate.
    fn send(&self, token: &str, request: axum::http::request::Builder, body: &str) -> Answer {
        self.ask(ADDRESS, signed(token, request, body))
    }

    /// Sends a request to any server that has the certificate.
    pub fn ask(&self, address: &str, request: Request<Body>) -> Answer {
        self.try_ask(address, request).expect("an answer")
    }

    fn try_ask(&self, address: &str, request: Request<Body>) -> Result<Answer, kube::Error> {
        self.rig.run(|| async {
            let mut config = Config::new(address.parse().expect("an address"));
            config.root_cert_file = Some(self.certificate());
            config.default_retry = false;
            let client = Client::try_from(config).expect("a client");
            let (head, body) = client.send(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                body: String::from_utf8(body.to_vec()).expect("text"),
            })
        })
    }

    /// The plugin, run as the administrator unless its arguments say otherwise.
    pub fn plugin(&self, arguments: &[&str]) -> Command {
        let mut command = self.rig.net(binary("kubectl-gpushare"));
        command
            .arg("budget")
            .args(arguments)
            .env("GPUSHARE_TIMEKEEPER", ADDRESS);
        command
    }

    /// A file of the test, such as the certificate for `localhost` in `tls.crt` and `tls.key`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn certificate(&self) -> PathBuf {
        self.file("tls.crt")
    }
}

fn signed(token: &str, request: axum::http::request::Builder, body: &str) -> Request<Body> {
    request
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(Body::from(body.as_bytes().to_vec()))
        .expect("a request")
}

fn timekeeper(rig: &Rig, directory: &TempDir) -> Process {
    let path = |name: &str| directory.path().join(name);
    let certificate = issue("localhost", &path("tls.crt"), &path("tls.key"));
    let authority = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "gpushare-timekeeper-ca", "namespace": "gpushare-system"},
        "data": {"ca.crt": certificate},
    });
    rig.apply(&authority.to_string()).expect("applied");
    // In the rig's own pid namespace, so that it ends with the rig.
    let mut command = rig.inside(binary("gpushare-control"));
    command
        .args(["timekeeper", "--log-format", "json"])
        .args(["--listen", "127.0.0.1:12352", "--admin-listen", ADMIN])
        .arg("--tls-cert")
        .arg(path("tls.crt"))
        .arg("--tls-key")
        .arg(path("tls.key"))
        .arg("--database")
        .arg(path("ledger.db"))
        .arg("--now-file")
        .arg(path("now"))
        .arg("--kubeconfig")
        .arg(path(&format!("{ACCOUNT}.kubeconfig")));
    launch(rig, "timekeeper", command, ACCOUNT)
}

/// Creates two teams with a budget each, and users with the roles of `deploy/`.
fn people(rig: &Rig) {
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let account = |namespace: &str, name: &str| {
        let mut account = object("ServiceAccount", name);
        account["metadata"]["namespace"] = json!(namespace);
        account
    };
    let budget = |name: &str| {
        let spec = json!({"amount": "20h", "namespaces": {"names": [name]}});
        manifest::budget(name, &spec)
    };
    let list = manifest::list(&[
        object("Namespace", OWN),
        object("Namespace", OTHER),
        object("Namespace", "team-free"),
        account(OWN, "tenant"),
        account(OWN, "revoked"),
        account("gpushare-system", "chief"),
        budget(OWN),
        budget(OTHER),
        budget(SPARE),
    ]);
    rig.apply(&list.to_string()).expect("applied");
    let tenant = format!("--serviceaccount={OWN}:tenant --namespace={OWN}");
    let chief = "--serviceaccount=gpushare-system:chief";
    for create in [
        format!("rolebinding tenant --clusterrole=edit {tenant}"),
        format!("clusterrolebinding chief --clusterrole=gpushare-budget-manager {chief}"),
    ] {
        rig.ctl(&format!("create {create}")).expect("bound");
    }
    wait_for_account(rig, OWN);
}

/// The current month.
fn month() -> Span {
    let month = Schedule::calendar(Calendar::Month, "UTC").expect("a calendar");
    let now = Timestamp::now().as_second();
    month.slot(now).expect("a month")
}

/// Writes the usage of each team, early in a month, to the ledger.
async fn seed(directory: &TempDir, start: Seconds) {
    let ledger =
        Ledger::new(Sqlite::open(&directory.path().join("ledger.db")).expect("the ledger opens"));
    let epoch = ledger.take_over("the test").await.expect("a term");
    let mut changes = Vec::new();
    for team in [OWN, OTHER] {
        let pod = PodUid::new(format!("uid-{team}"));
        changes.push(Change::Charge(Charge {
            pod: pod.clone(),
            namespace: team.to_owned(),
            name: format!("pod-of-{team}"),
            from: start,
            to: start + HELD,
            rate: Rate::from_micros(500_000),
            formula: "max/1".to_owned(),
            cards: Arc::default(),
            legs: vec![Leg {
                budget: team.to_owned(),
                slot: start,
            }],
        }));
        changes.push(Change::Settle(Settlement {
            pod,
            namespace: team.to_owned(),
            name: format!("pod-of-{team}"),
            end: start + HELD,
        }));
    }
    let batch = Batch {
        epoch,
        now: start + HELD,
        changes,
    };
    ledger.record(batch).await.expect("written");
}
