//! What applications read: a file that is always complete, and the same on the pod's loopback.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use gpushare_daemon::files::{self, Links};
use gpushare_daemon::serve::{self, Connections, Limits};
use parking_lot::RwLock;

use super::report::BudgetReport;

const FILE: &str = "budget.json";
/// Written first and then renamed, so that a reader sees the old file or the new one.
const DRAFT: &str = ".budget.json.new";
/// Many times the size of the file. The application may be able to write the directory too.
const LARGEST_FILE: u64 = 64 * 1024;
/// Pause before the next try: the application may have taken the port. It can still read the file.
const BETWEEN_TRIES: Duration = Duration::from_secs(30);
/// Only the containers of one pod send requests.
const FOR_ONE_POD: Limits = Limits {
    connections: 64,
    per_client: 64,
    ..Limits::STANDARD
};

/// What is shown now; clones show the same.
#[derive(Clone, Debug)]
pub(super) struct Board {
    directory: Arc<PathBuf>,
    shown: Arc<RwLock<Bytes>>,
}

impl Board {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: Arc::new(directory.to_owned()),
            shown: Arc::default(),
        }
    }

    /// What an earlier instance in this pod published last.
    pub(super) fn last(&self) -> Option<BudgetReport> {
        let file = self.directory.join(FILE);
        let text = files::read(&file, Links::Refuse, LARGEST_FILE).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) fn show(&self, report: &BudgetReport) {
        let mut text = match serde_json::to_vec(report) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, "the budget cannot be written as JSON");
                return;
            }
        };
        text.push(b'\n');
        if let Err(error) = self.write(&text) {
            let directory = self.directory.display();
            tracing::warn!(%error, %directory, "cannot write the file; trying again with the next answer");
        }
        *self.shown.write() = text.into();
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let draft = self.directory.join(DRAFT);
        files::replace(&self.directory.join(FILE), &draft, text)
    }

    fn router(&self) -> Router {
        Router::new()
            .route("/budget", get(budget))
            .route("/healthz", get(async || "ok\n"))
            .with_state(self.clone())
    }
}

async fn budget(State(board): State<Board>) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, board.shown.read().clone()).into_response()
}

/// Serves for ever, starting as soon as the port is free.
pub(super) async fn serve(listen: SocketAddr, board: Board) {
    loop {
        match serve::listen(listen) {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(listen);
                tracing::info!(%address, "serving /budget");
                let connections = Connections::default().within(FOR_ONE_POD);
                if let Err(error) = serve::plain(listener, board.router(), connections).await {
                    tracing::warn!(%error, "the local server ended");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot serve /budget; the file is still written");
            }
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_directory_that_cannot_be_written_is_no_reason_to_end() {
        let board = Board::new(Path::new("/nonexistent"));
        board.show(&BudgetReport::nothing());
        assert!(!board.shown.read().is_empty());
    }

    #[test]
    fn the_file_is_replaced_and_never_written_in_place() {
        let directory = tempfile::tempdir().unwrap();
        let board = Board::new(directory.path());
        board.show(&BudgetReport::nothing());
        let mut held = fs::File::open(directory.path().join(FILE)).unwrap();
        board.show(&BudgetReport::nothing().grown_stale());
        board.show(&BudgetReport::nothing());
        // A reader that has opened the old file can read it to its end.
        let old = io::read_to_string(&mut held).unwrap();
        assert!(
            serde_json::from_str::<serde_json::Value>(&old).is_ok(),
            "{old}"
        );
        let left = fs::read_dir(directory.path()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [FILE]);
    }

    #[test]
    fn a_sidecar_that_was_restarted_goes_on_from_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let board = Board::new(directory.path());
        assert_eq!(board.last(), None);
        board.show(&BudgetReport::nothing());
        assert_eq!(
            Board::new(directory.path()).last(),
            Some(BudgetReport::nothing())
        );
        fs::write(directory.path().join(FILE), "half").unwrap();
        assert_eq!(board.last(), None);
    }

    #[test]
    fn an_application_cannot_hold_up_its_sidecar_with_what_is_no_file() {
        let directory = tempfile::tempdir().unwrap();
        for name in [FILE, DRAFT] {
            let fifo = directory.path().join(name);
            mknodat(CWD, fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        let (tell, told) = mpsc::channel();
        let board = Board::new(directory.path());
        std::thread::spawn(move || {
            let before = board.last();
            board.show(&BudgetReport::nothing());
            tell.send((before, board.last())).is_ok()
        });
        // Far more than it takes, far less than for ever.
        let seen = told.recv_timeout(Duration::from_secs(20));
        assert_eq!(
            seen.expect("it hangs"),
            (None, Some(BudgetReport::nothing()))
        );
    }
}
