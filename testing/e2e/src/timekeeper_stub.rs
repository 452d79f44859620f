//! A timekeeper that reports what the test wants for every pod, in a rig's network, over TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use gpushare_daemon::Tasks;
use gpushare_daemon::serve::{self, Connections};
use gpushare_daemon::tls::{Tls, TlsFiles};
use gpushare_rig::{NODE_IP, Rig};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;

use crate::world::issue;

/// Serves until the test's process ends.
#[derive(Debug)]
pub struct TimekeeperStub {
    pub url: String,
    files: TempDir,
    mind: Arc<Mutex<Mind>>,
}

#[derive(Debug, Default)]
struct Mind {
    /// `None` while the timekeeper is down.
    answer: Option<Value>,
    questions: Vec<Question>,
}

#[derive(Clone, Debug)]
pub struct Question {
    pub path: String,
    pub token: String,
}

impl TimekeeperStub {
    pub fn start(rig: &Rig) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let tls = TlsFiles {
            certificate: files.path().join("cert"),
            key: files.path().join("key"),
            client_ca: None,
        };
        issue(NODE_IP, &tls.certificate, &tls.key);
        let mind = Arc::new(Mutex::new(Mind::default()));
        let (ready, started) = channel();
        let (network, router) = (
            rig.network(),
            Router::new().fallback(reply).with_state(mind.clone()),
        );
        thread::spawn(move || {
            network.run(|| async move {
                let any = SocketAddr::from(([0, 0, 0, 0], 0));
                let listener = serve::listen(any).expect("a port");
                let port = listener.local_addr().expect("an address").port();
                let (tasks, tls) = (Tasks::new(), Tls::load(tls).expect("certificates"));
                let connections = Connections::default();
                serve::spawn(&tasks, "the stub", listener, Some(tls), router, connections);
                ready.send(port).expect("the test waits");
                // Nothing ends it: it runs until the test's process ends.
                let _ended = tasks.finished(serve::DRAIN).await;
            });
        });
        let port = started.recv().expect("the stub starts");
        Self {
            url: format!("https://{NODE_IP}:{port}"),
            files,
            mind,
        }
    }

    /// The file with the certificate that clients must trust.
    pub fn ca(&self) -> String {
        self.files.path().join("cert").display().to_string()
    }

    pub fn says(&self, answer: Value) {
        self.mind.lock().answer = Some(answer);
    }

    pub fn goes_away(&self) {
        self.mind.lock().answer = None;
    }

    /// The questions whose path contains `part`.
    pub fn questions(&self, part: &str) -> Vec<Question> {
        let questions = self.mind.lock().questions.clone();
        let about = |question: &Question| question.path.contains(part);
        questions.into_iter().filter(about).collect()
    }
}

async fn reply(State(mind): State<Arc<Mutex<Mind>>>, uri: Uri, headers: HeaderMap) -> Response {
    let token = headers.get(header::AUTHORIZATION);
    let token = token
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut mind = mind.lock();
    mind.questions.push(Question {
        path: uri.path().to_owned(),
        token: token.trim_start_matches("Bearer ").to_owned(),
    });
    match &mind.answer {
        Some(answer) => axum::Json(answer.clone()).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
