//! Two teams with budgets, and people with rights.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use gpushare_apiserver::Server;
use gpushare_core::{CardId, PodUid};
use gpushare_daemon::metrics::{Catalogue, MetricSet};
use gpushare_kube::gpu_budget::GpuBudgetSpec;
use gpushare_ledger::Seconds;
use gpushare_ledger::journal::Leg;
use gpushare_ledger::meter::{Charge, HeldCard};
use gpushare_ledger::money::{Amount, Rate};
use gpushare_ledger::policy::Policy;
use gpushare_ledger::price::{Holding, Part};
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Batch, Change, Epoch, Ledger, Settlement};
use gpushare_timekeeper::api::{
    Api, Books, Budget, Metrics, Payer, Pod, Recording, RecordingError,
};
use http_body_util::BodyExt;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

/// 2026-11-16T09:00:00Z
pub(crate) const NOW: Seconds = 1_794_819_600;
/// 2026-11-01T00:00:00Z
pub(crate) const NOVEMBER: Seconds = 1_793_491_200;
pub(crate) const HOUR: Seconds = 3_600;

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) ledger: Ledger,
    pub(crate) memory: Arc<Mutex<Memory>>,
    pub(crate) metrics: MetricSet,
    router: Router,
    epoch: Epoch,
    _directory: TempDir,
}

/// What the timekeeper would know.
pub(crate) struct Memory {
    pub(crate) now: Seconds,
    pub(crate) ready: Result<(), String>,
    pub(crate) payers: BTreeMap<String, Payer>,
    pub(crate) budgets: BTreeMap<String, Budget>,
    pub(crate) pods: BTreeMap<(String, String), Pod>,
    /// `None` while another process writes.
    pub(crate) writes: Option<Epoch>,
}

struct Fake {
    memory: Arc<Mutex<Memory>>,
    ledger: Ledger,
}

impl Books for Fake {
    fn now(&self) -> Seconds {
        self.memory.lock().now
    }

    fn ready(&self) -> Result<(), String> {
        self.memory.lock().ready.clone()
    }

    fn payer(&self, namespace: &str) -> Payer {
        let memory = self.memory.lock();
        let known = memory.payers.get(namespace).cloned();
        known.unwrap_or(Payer::Unknown)
    }

    fn budget(&self, name: &str) -> Option<Budget> {
        self.memory.lock().budgets.get(name).cloned()
    }

    fn budgets(&self) -> Vec<String> {
        self.memory.lock().budgets.keys().cloned().collect()
    }

    fn pod(&self, namespace: &str, name: &str, _likely: Option<&PodUid>) -> Option<Pod> {
        let key = (namespace.to_owned(), name.to_owned());
        self.memory.lock().pods.get(&key).cloned()
    }

    fn record(&self, change: Change) -> Recording<'_> {
        Box::pin(async move {
            let (epoch, now) = {
                let memory = self.memory.lock();
                (memory.writes, memory.now)
            };
            let other = || RecordingError::NotTheWriter("another replica leads".to_owned());
            let batch = Batch::new(epoch.ok_or_else(other)?, now, vec![change]);
            Ok(self.ledger.record(batch).await?[0])
        })
    }
}

/// An answer of the API.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Told {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| json!(self.text))
    }

    /// The answer, which must be good.
    pub(crate) fn good(&self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        self.json()
    }

    /// The message of a refusal with this code.
    pub(crate) fn refused(&self, code: u16) -> String {
        assert_eq!(self.status.as_u16(), code, "{self:?}");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{self:?}");
        problem["message"].as_str().unwrap().to_owned()
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        let server = Server::builder()
            .review("authentication.k8s.io", "tokenreviews", review_token)
            .review(
                "authorization.k8s.io",
                "subjectaccessreviews",
                review_access,
            )
            .start()
            .await
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(Sqlite::open(&directory.path().join("ledger.db")).unwrap());
        let epoch = ledger.take_over("test").await.unwrap();
        let memory = Arc::new(Mutex::new(Memory {
            now: NOW,
            ready: Ok(()),
            payers: BTreeMap::from([
                ("a".to_owned(), Payer::Budget("blue".to_owned())),
                ("b".to_owned(), Payer::Budget("red".to_owned())),
                ("free".to_owned(), Payer::Nobody),
                ("torn".to_owned(), Payer::Ambiguous),
            ]),
            budgets: BTreeMap::from([
                budget("blue", &json!({"amount": "20h"}), &["all"]),
                budget("red", &json!({"amount": "10h"}), &["all"]),
                budget("all", &json!({"amount": "100h"}), &[]),
                budget(
                    "week",
                    &json!({"amount": "7h", "period": {"kind": "Rolling", "window": "7d"}}),
                    &[],
                ),
            ]),
            pods: BTreeMap::from([(("a".to_owned(), "train".to_owned()), Pod::default())]),
            writes: Some(epoch),
        }));
        let fake = Fake {
            memory: Arc::clone(&memory),
            ledger: ledger.clone(),
        };
        let mut catalogue = Catalogue::new("gpushare_timekeeper");
        let mut config = server.config();
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let api = Api::new(fake, ledger.clone(), client, Metrics::new(&mut catalogue));
        let world = Self {
            router: api.router(),
            server,
            ledger,
            memory,
            metrics: catalogue.publish(),
            epoch,
            _directory: directory,
        };
        world
            .write(vec![issue("blue", 20), issue("red", 10), issue("all", 100)])
            .await;
        world
    }

    pub(crate) async fn write(&self, changes: Vec<Change>) {
        let batch = Batch::new(self.epoch, NOW, changes);
        self.ledger.record(batch).await.unwrap();
    }

    /// A pod of a namespace that held half a card for some hours.
    pub(crate) async fn charge(&self, namespace: &str, pod: &str, from: Seconds, hours: i64) {
        let budget = if namespace == "a" { "blue" } else { "red" };
        self.write(vec![
            charge(namespace, pod, from, from + hours * HOUR, &[budget, "all"]),
            settle(namespace, pod, from + hours * HOUR),
        ])
        .await;
    }

    pub(crate) async fn get(&self, who: &str, path: &str) -> Told {
        self.send(who, Request::get(path), Body::empty()).await
    }

    /// Sends a GET, which must succeed, and returns the answer.
    pub(crate) async fn good(&self, who: &str, path: &str) -> Value {
        self.get(who, path).await.good()
    }

    /// Sends a GET, which must be refused with this code, and returns the message.
    pub(crate) async fn refused(&self, who: &str, path: &str, code: u16) -> String {
        self.get(who, path).await.refused(code)
    }

    /// The chief grants a budget more.
    pub(crate) async fn granted(&self, budget: &str, amount: Value) -> Value {
        let grant = json!({"id": "g", "amount": amount, "reason": "a deadline"});
        let path = format!("/v1/budgets/{budget}/grants");
        self.post("chief", &path, &grant).await.good()
    }

    pub(crate) async fn post(&self, who: &str, path: &str, body: &Value) -> Told {
        let body = Body::from(body.to_string());
        self.send(who, Request::post(path), body).await
    }

    /// Sends with the token of `who`, or without a token if that is empty.
    pub(crate) async fn send(
        &self,
        who: &str,
        mut request: axum::http::request::Builder,
        body: Body,
    ) -> Told {
        if !who.is_empty() {
            request = request.header("Authorization", format!("Bearer {who}"));
        }
        let request = request.body(body).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Told {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.metrics.registry).unwrap();
        text
    }
}

pub(crate) fn budget(name: &str, spec: &Value, ancestors: &[&str]) -> (String, Budget) {
    let spec: GpuBudgetSpec = serde_json::from_value(spec.clone()).unwrap();
    let budget = Budget {
        name: name.to_owned(),
        policy: Policy::try_from(&spec).unwrap(),
        ancestors: ancestors.iter().map(|&name| name.to_owned()).collect(),
        held: Amount::ZERO,
        used: None,
        rate: Rate::ZERO,
    };
    (name.to_owned(), budget)
}

fn issue(budget: &str, hours: i64) -> Change {
    Change::Issue {
        leg: Leg::new(budget, NOVEMBER),
        amount: Amount::from_seconds(hours * HOUR).unwrap(),
    }
}

pub(crate) fn charge(
    namespace: &str,
    pod: &str,
    from: Seconds,
    to: Seconds,
    budgets: &[&str],
) -> Change {
    let leg = |budget: &&str| Leg::new(budget, NOVEMBER);
    let card = HeldCard {
        id: CardId::new("GPU-1"),
        holding: Holding {
            model: "Tesla T4".into(),
            memory: Part {
                held: 8_192,
                of: 16_384,
            },
            core: Part { held: 50, of: 100 },
        },
    };
    Change::Charge(Charge {
        pod: PodUid::new(format!("uid-{pod}")),
        namespace: namespace.to_owned(),
        name: pod.to_owned(),
        from,
        to,
        rate: Rate::from_micros(500_000),
        formula: "weighted(1,3)/1".to_owned(),
        cards: Arc::new([card]),
        legs: budgets.iter().map(leg).collect(),
    })
}

fn settle(namespace: &str, pod: &str, end: Seconds) -> Change {
    Change::Settle(Settlement {
        pod: PodUid::new(format!("uid-{pod}")),
        namespace: namespace.to_owned(),
        name: pod.to_owned(),
        end,
    })
}

/// Tokens are the names of their owners. The token of a service account has its audience after an `@`.
fn review_token(review: &Value) -> Value {
    let token = review["spec"]["token"].as_str().unwrap();
    let (owner, audience) = token.split_once('@').unwrap_or((token, "api"));
    let audiences = review["spec"]["audiences"].as_array().cloned();
    let wanted: BTreeSet<String> = audiences
        .unwrap_or_else(|| vec![json!("api")])
        .iter()
        .map(|audience| audience.as_str().unwrap().to_owned())
        .collect();
    let known = owner.starts_with("system:serviceaccount:")
        || ["tenant", "chief", "auditor", "forger"].contains(&owner);
    if !known || !wanted.contains(audience) {
        return json!({"authenticated": false, "error": "no such token"});
    }
    let mut user = json!({"username": owner, "groups": ["system:authenticated"]});
    if let Some(account) = owner.strip_prefix("system:serviceaccount:") {
        let namespace = account.split(':').next().unwrap();
        user["groups"] = json!([format!("system:serviceaccounts:{namespace}")]);
    }
    if owner == "forger" {
        user["username"] = json!("system:serviceaccount:b:default");
    }
    json!({"authenticated": true, "user": user, "audiences": [audience]})
}

/// The tenant may read what concerns the namespaces a, free and torn; the chief may do everything; the auditor may
/// export.
fn review_access(review: &Value) -> Value {
    let spec = &review["spec"];
    let asked = &spec["resourceAttributes"];
    assert_eq!(asked["group"], "gpushare.io");
    let resource = asked["resource"].as_str().unwrap();
    let allowed = match spec["user"].as_str().unwrap() {
        "chief" => true,
        "auditor" => asked["verb"] == "export",
        "tenant" => {
            let own = ["a", "free", "torn"].map(|name| json!(name));
            own.contains(&asked["namespace"])
                && ["budgetbalances", "budgetstatements"].contains(&resource)
                && asked["verb"] == "get"
        }
        _ => false,
    };
    json!({"allowed": allowed})
}
