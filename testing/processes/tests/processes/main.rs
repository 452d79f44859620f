//! The program as a process: how its roles start, refuse to start, and end.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

mod extender;
mod sidecar;
mod starting;
mod timekeeper;
mod webhook;

use std::process::{Command, Stdio};

use gpushare_apiserver::Server;
use gpushare_testkit::http::{self, Answer};
use gpushare_testkit::process::{Logging, binary};
use gpushare_testkit::until_blocking;

fn role(role: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(binary("gpushare-control"));
    command.env_clear().arg(role).args(flags);
    command
}

/// The standard error of a role that cannot start.
fn refused(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// A running role, and where it answers plain HTTP.
struct Running {
    process: Logging,
    address: String,
}

impl Running {
    /// Starts a role that logs the address of its plain HTTP under the name `listen`.
    fn start(command: Command, listen: &str) -> Self {
        let process = Logging::start("gpushare-control", command, listen);
        let address = process.logged(listen).to_owned();
        Self { process, address }
    }

    fn get(&self, path: &str) -> std::io::Result<Answer> {
        http::blocking(http::get(&self.address, path))
    }

    fn is(&self, path: &str, code: u16) -> bool {
        self.get(path).is_ok_and(|answer| answer.status == code)
    }

    fn says(&self, path: &str, text: &str) -> bool {
        let answer = self.get(path);
        answer.is_ok_and(|answer| answer.text().contains(text))
    }

    fn until_ready(&self) {
        until_blocking("it is ready", || match self.get("/readyz") {
            Ok(answer) if answer.status == 200 => Ok(()),
            other => Err(other),
        });
    }

    /// Asks it to end, and asserts that it does with success.
    fn terminate(self) {
        self.process.terminate();
    }
}

/// Runs a blocking test with the path of a kubeconfig.
async fn on_an_api_server(test: impl FnOnce(&str) + Send + 'static) {
    let server = Server::start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    let work = tokio::task::spawn_blocking(move || test(kubeconfig.to_str().unwrap()));
    work.await.unwrap();
    server.shutdown().await;
}
