//! The budget sidecar as a process, against the test's own timekeeper over TLS.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use gpushare_daemon::Tasks;
use gpushare_daemon::serve::{self, Connections};
use gpushare_daemon::tls::{Tls, TlsFiles};
use gpushare_testkit::until_blocking;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Running, role};

/// The answer of the timekeeper, and the path and token of each request to it.
#[derive(Debug)]
struct Mind {
    answer: (StatusCode, String),
    questions: Vec<(String, String)>,
}

/// A timekeeper that answers what the test wants.
struct Timekeeper {
    mind: Arc<Mutex<Mind>>,
    address: SocketAddr,
    tasks: Tasks,
    files: TempDir,
    /// Serves until it is dropped.
    _runtime: tokio::runtime::Runtime,
}

impl Timekeeper {
    fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let path = |name: &str| files.path().join(name);
        fs::write(path("cert"), issued.cert.pem()).unwrap();
        fs::write(path("key"), issued.signing_key.serialize_pem()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mind = Arc::new(Mutex::new(Mind {
            answer: (StatusCode::OK, "{}".to_owned()),
            questions: Vec::new(),
        }));
        let router = Router::new().fallback(reply).with_state(mind.clone());
        let tasks = Tasks::new();
        let listener = serve::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Tls::load(TlsFiles {
            certificate: path("cert"),
            key: path("key"),
            client_ca: None,
        })
        .unwrap();
        let guard = runtime.enter();
        serve::spawn(
            &tasks,
            "stub",
            listener,
            Some(tls),
            router,
            Connections::default(),
        );
        drop(guard);
        fs::write(path("token"), "the-token\n").unwrap();
        Self {
            mind,
            address,
            tasks,
            files,
            _runtime: runtime,
        }
    }

    fn say(&self, status: StatusCode, body: &impl ToString) {
        self.mind.lock().answer = (status, body.to_string());
    }

    fn certificate(&self) -> String {
        fs::read_to_string(self.files.path().join("cert")).unwrap()
    }
}

impl Drop for Timekeeper {
    fn drop(&mut self) {
        self.tasks.shutdown().cancel();
    }
}

async fn reply(State(mind): State<Arc<Mutex<Mind>>>, uri: Uri, headers: HeaderMap) -> Response {
    let token = headers
        .get("authorization")
        .map(|value| value.to_str().unwrap());
    let question = (uri.path().to_owned(), token.unwrap_or_default().to_owned());
    let mut mind = mind.lock();
    mind.questions.push(question);
    mind.answer.clone().into_response()
}

/// A running sidecar, and the directory in which it writes the file for the application.
struct Sidecar {
    running: Running,
    directory: TempDir,
}

impl Sidecar {
    fn start(timekeeper: &Timekeeper) -> Self {
        let ca = timekeeper.certificate();
        Self::believing(timekeeper, &ca, tempfile::tempdir().unwrap())
    }

    fn believing(timekeeper: &Timekeeper, ca: &str, directory: TempDir) -> Self {
        let address = format!("https://{}", timekeeper.address);
        let flags = ["--listen=127.0.0.1:0", "--interval=1s", "--log-format=json"];
        let mut command = role("sidecar", &flags);
        command
            // The webhook sets these variables.
            .env("GPUSHARE_TIMEKEEPER", address)
            .env("GPUSHARE_TIMEKEEPER_CA", ca)
            .env("POD_NAMESPACE", "team-a")
            .env("POD_NAME", "train-0")
            .arg("--token-file")
            .arg(timekeeper.files.path().join("token"))
            .arg("--directory")
            .arg(directory.path());
        Self {
            running: Running::start(command, "address"),
            directory,
        }
    }

    fn file(&self) -> Option<Value> {
        let text = fs::read(self.directory.path().join("budget.json")).ok()?;
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// Waits until the file and the server both satisfy the condition.
    fn until(&mut self, told: impl Fn(&Value) -> bool) -> Value {
        until_blocking("the sidecar tells it", || {
            self.running.process.process.assert_alive();
            let file = self.file();
            let file = file.filter(&told).ok_or_else(|| self.file())?;
            let served = self.running.get("/budget").unwrap();
            assert_eq!(served.status, 200, "{served:?}");
            // The sidecar may have received something newer in between.
            told(&served.json())
                .then_some(file)
                .ok_or(Some(served.json()))
        })
    }
}

fn standing(remaining: i64) -> Value {
    json!({
        "namespace": "team-a", "pod": "train-0",
        "budget": {"name": "vision", "remainingSeconds": remaining, "exhausted": false, "exhaustsAt": "2026-11-20T10:00:00Z"},
        "overBudget": false, "evictAt": null,
    })
}

/// A timekeeper that reports 100 remaining seconds, a sidecar that has received them, and what the sidecar reports.
fn informed() -> (Timekeeper, Sidecar, Value) {
    let timekeeper = Timekeeper::start();
    timekeeper.say(StatusCode::OK, &standing(100));
    let mut sidecar = Sidecar::start(&timekeeper);
    let told = sidecar.until(|told| told["stale"] == false);
    (timekeeper, sidecar, told)
}

#[test]
fn the_application_is_told_its_own_pods_standing_and_every_change_of_it() {
    let (timekeeper, mut sidecar, told) = informed();
    assert_eq!(told["remaining"], 100);
    assert_eq!(told["exhaustsAt"], "2026-11-20T10:00:00Z");
    assert_eq!(told["evictAt"], Value::Null);
    assert!(told["observedAt"].is_string());
    let mut over = standing(0);
    over["overBudget"] = json!(true);
    over["evictAt"] = json!("2026-11-16T10:10:00Z");
    timekeeper.say(StatusCode::OK, &over);
    let told = sidecar.until(|told| told["overBudget"] == true);
    assert_eq!(told["evictAt"], "2026-11-16T10:10:00Z");
    let question = (
        "/v1/namespaces/team-a/pods/train-0".to_owned(),
        "Bearer the-token".to_owned(),
    );
    let asked = timekeeper.mind.lock().questions.clone();
    assert!(asked.iter().all(|other| *other == question), "{asked:?}");
    assert_eq!(sidecar.running.get("/healthz").unwrap().body, b"ok\n");
    sidecar.running.terminate();
}

#[test]
fn a_renewed_token_is_used() {
    let (timekeeper, mut sidecar, _) = informed();
    fs::write(timekeeper.files.path().join("token"), "renewed").unwrap();
    sidecar.until(|_| {
        let asked = &timekeeper.mind.lock().questions;
        asked
            .last()
            .is_some_and(|(_, token)| token == "Bearer renewed")
    });
}

#[test]
fn the_last_state_stays_marked_as_stale_while_the_timekeeper_makes_no_sense() {
    let (timekeeper, mut sidecar, known) = informed();
    let too_long = format!("{}{}", standing(1), " ".repeat(1 << 20));
    for (status, body) in [
        (StatusCode::SERVICE_UNAVAILABLE, "away".to_owned()),
        (StatusCode::FORBIDDEN, "{}".to_owned()),
        (StatusCode::OK, "{\"budget\": 7}".to_owned()),
        (StatusCode::OK, "<html>".to_owned()),
        (StatusCode::OK, too_long),
    ] {
        timekeeper.say(status, &body);
        let told = sidecar.until(|told| told["stale"] == true);
        assert_eq!(told["remaining"], known["remaining"]);
        timekeeper.say(StatusCode::OK, &standing(100));
        sidecar.until(|told| told["stale"] == false);
    }
    sidecar.running.terminate();
}

#[test]
fn a_timekeeper_that_cannot_be_believed_is_shown_no_token_and_ends_nothing() {
    let timekeeper = Timekeeper::start();
    timekeeper.say(StatusCode::OK, &standing(100));
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut sidecar = Sidecar::believing(&timekeeper, &other.cert.pem(), directory);
    let told = sidecar.until(|told| told["stale"] == true);
    assert_eq!(told["observedAt"], Value::Null);
    assert_eq!(timekeeper.mind.lock().questions, []);
    sidecar.running.terminate();
}

#[test]
fn a_restarted_sidecar_goes_on_from_what_was_known() {
    let (timekeeper, sidecar, _) = informed();
    let known = fs::read(sidecar.directory.path().join("budget.json")).unwrap();
    drop(sidecar);
    timekeeper.say(StatusCode::SERVICE_UNAVAILABLE, &"");
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("budget.json"), known).unwrap();
    let ca = timekeeper.certificate();
    let mut sidecar = Sidecar::believing(&timekeeper, &ca, directory);
    let told = sidecar.until(|told| told["stale"] == true);
    assert_eq!(told["remaining"], 100);
}
