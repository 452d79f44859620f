//! The budget sidecar as a process, against the test's own timekeeper over TLS.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use gpushare_daemon::Tasks;
use gpushare_daemon::serve::{self, Connections};
use gpushare_daemon::tls::{Tls, TlsFiles};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_gpushare-control");
const PATIENCE: Duration = Duration::from_mins(1);

/// What the timekeeper answers, and what it was asked.
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

/// A running sidecar, killed when dropped.
struct Sidecar {
    process: Child,
    address: String,
    directory: TempDir,
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _already_ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Sidecar {
    fn start(timekeeper: &Timekeeper) -> Self {
        let ca = timekeeper.certificate();
        Self::believing(timekeeper, &ca, tempfile::tempdir().unwrap())
    }

    fn believing(timekeeper: &Timekeeper, ca: &str, directory: TempDir) -> Self {
        let mut process = Command::new(PROGRAM)
            .env_clear()
            // As the webhook sets it.
            .env(
                "GPUSHARE_TIMEKEEPER",
                format!("https://{}", timekeeper.address),
            )
            .env("GPUSHARE_TIMEKEEPER_CA", ca)
            .env("POD_NAMESPACE", "team-a")
            .env("POD_NAME", "train-0")
            .args(["sidecar", "--listen", "127.0.0.1:0", "--interval", "1s"])
            .args(["--log-format", "json", "--token-file"])
            .arg(timekeeper.files.path().join("token"))
            .arg("--directory")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut logs = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = logs
            .by_ref()
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
            .find_map(|line| line.get("address")?.as_str().map(str::to_owned))
            .unwrap();
        // Keep reading, or the process would block on a full pipe.
        thread::spawn(move || logs.map_while(Result::ok).count());
        Self {
            process,
            address,
            directory,
        }
    }

    fn file(&self) -> Option<Value> {
        let text = fs::read(self.directory.path().join("budget.json")).ok()?;
        Some(serde_json::from_slice(&text).unwrap())
    }

    fn get(&self, path: &str) -> String {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Waits until the file and the server both satisfy the condition.
    fn until(&mut self, told: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let file = self.file();
            if let Some(file) = file.filter(&told) {
                let served: Value = serde_json::from_str(&self.get("/budget")).unwrap();
                // The sidecar may have received something newer in between.
                if told(&served) {
                    return file;
                }
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "it ended by itself: {ended:?}");
            let late = Instant::now() > deadline;
            assert!(!late, "not told in time: {:?}", self.file());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn terminate(mut self) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.unwrap().success());
        let ended = self.process.wait().unwrap();
        assert!(ended.success(), "{ended}");
    }
}

fn standing(remaining: i64) -> Value {
    json!({
        "namespace": "team-a", "pod": "train-0",
        "budget": {"name": "vision", "remainingSeconds": remaining, "exhausted": false, "exhaustsAt": "2026-11-20T10:00:00Z"},
        "overBudget": false, "evictAt": null,
    })
}

#[test]
fn the_application_is_told_its_own_pods_standing_and_every_change_of_it() {
    let timekeeper = Timekeeper::start();
    timekeeper.say(StatusCode::OK, &standing(100));
    let mut sidecar = Sidecar::start(&timekeeper);
    let told = sidecar.until(|told| told["stale"] == false);
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
    assert_eq!(sidecar.get("/healthz"), "ok\n");
    sidecar.terminate();
}

#[test]
fn a_renewed_token_is_used() {
    let timekeeper = Timekeeper::start();
    timekeeper.say(StatusCode::OK, &standing(100));
    let mut sidecar = Sidecar::start(&timekeeper);
    sidecar.until(|told| told["stale"] == false);
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
    let timekeeper = Timekeeper::start();
    timekeeper.say(StatusCode::OK, &standing(100));
    let mut sidecar = Sidecar::start(&timekeeper);
    let known = sidecar.until(|told| told["stale"] == false);
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
    sidecar.terminate();
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
    sidecar.terminate();
}

#[test]
fn a_restarted_sidecar_goes_on_from_what_was_known() {
    let timekeeper = Timekeeper::start();
    timekeeper.say(StatusCode::OK, &standing(100));
    let mut sidecar = Sidecar::start(&timekeeper);
    sidecar.until(|told| told["stale"] == false);
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

#[test]
fn a_sidecar_that_cannot_work_says_so_at_once() {
    for (flags, expected) in [
        (["--timekeeper", "http://t"], "https"),
        (["--timekeeper-ca", "nonsense"], "--timekeeper-ca"),
        (["--listen", "0.0.0.0:0"], "loopback"),
    ] {
        let output = Command::new(PROGRAM)
            .env_clear()
            .envs([("POD_NAMESPACE", "n"), ("POD_NAME", "p")])
            .envs([
                ("GPUSHARE_TIMEKEEPER", "https://t"),
                ("GPUSHARE_TIMEKEEPER_CA", "x"),
            ])
            .arg("sidecar")
            .args(flags)
            .output()
            .unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}
