//! Measured processes, and helpers. Each ends when its value is dropped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Connection, Request};

/// A generous limit: no step takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Extenders started so far.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn();
        child
            .map(Self)
            .with_context(|| format!("cannot start {program}"))
    }

    /// The process's output, if it was piped.
    pub(crate) fn output(&mut self) -> Result<ChildStdout> {
        self.0.stdout.take().context("its output was not asked for")
    }

    /// Asks the process to end, and waits until it has.
    pub(crate) fn end(mut self) -> Result<()> {
        let pid = self.0.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status()?;
        ensure!(asked.success(), "process {pid} cannot be asked to end");
        self.0.wait()?;
        Ok(())
    }

    pub(crate) fn resident_megabytes(&self) -> Result<f64> {
        self.megabytes("VmRSS:")
    }

    /// A field of the process's status in /proc, in MB.
    fn megabytes(&self, field: &str) -> Result<f64> {
        let path = format!("/proc/{}/status", self.0.id());
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| {
            line.trim()
                .trim_end_matches("kB")
                .trim()
                .parse::<f64>()
                .ok()
        });
        kib.map(|kib| kib * 1024.0 / 1e6)
            .with_context(|| format!("{path} has no {field}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _already_ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// This program, started as a server; see [`crate::helper`].
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _process: Process,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Result<Self> {
        let mut process = Process::start(itself()?.args(arguments).stdout(Stdio::piped()))?;
        let stdout = process.0.stdout.take().context("a helper has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse();
        Ok(Self {
            address: address.context("a helper ended before it listened")?,
            _process: process,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

pub(crate) fn itself() -> Result<Command> {
    let program = std::env::current_exe().context("cannot find this program")?;
    Ok(Command::new(program))
}

/// A role of `gpushare-control`, as users start it, with its log in a file.
#[derive(Debug)]
struct Control {
    role: &'static str,
    process: Process,
    log: PathBuf,
    _directory: TempDir,
    began: Instant,
}

/// The extender.
#[derive(Debug)]
pub(crate) struct Extender(Control);

/// The webhook, over TLS with its own certificate.
#[derive(Debug)]
pub(crate) struct Webhook {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Certificate,
    _control: Control,
}

/// A certificate for the loopback address, also as files.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) pem: String,
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    _directory: TempDir,
}

impl Certificate {
    fn issue() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let issued = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()])?;
        let (chain, key) = (directory.path().join("cert"), directory.path().join("key"));
        fs::write(&chain, issued.cert.pem())?;
        fs::write(&key, issued.signing_key.serialize_pem())?;
        Ok(Self {
            pem: issued.cert.pem(),
            chain,
            key,
            _directory: directory,
        })
    }
}

impl Webhook {
    /// Starts it against the API server at `url`, and waits until it is ready.
    pub(crate) fn start(url: &str) -> Result<Self> {
        let certificate = Certificate::issue()?;
        let directory = tempfile::tempdir()?;
        let kubeconfig = kubeconfig(&directory, url)?;
        let mut command = Command::new(program("gpushare-control")?);
        command
            .args(["webhook", "--listen", "127.0.0.1:0", "--tls-cert"])
            .arg(&certificate.chain)
            .arg("--tls-key")
            .arg(&certificate.key);
        let mut control = Control::start("webhook", command, &kubeconfig, directory)?;
        let address = control.address()?;
        let mut connection = Connection::open_tls(address, &certificate.pem)?;
        control.answers(&mut connection, "/readyz", Duration::from_millis(20))?;
        Ok(Self {
            address,
            certificate,
            _control: control,
        })
    }
}

/// The dashboard, without authentication.
#[derive(Debug)]
pub(crate) struct Dashboard(Control);

impl Dashboard {
    /// Starts it against the API server at `url`.
    pub(crate) fn start(url: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let kubeconfig = kubeconfig(&directory, url)?;
        let mut command = Command::new(program("gpushare-control")?);
        command.args(["dashboard", "--auth", "none", "--listen", "127.0.0.1:0"]);
        Control::start("dashboard", command, &kubeconfig, directory).map(Self)
    }

    /// Waits until it has listed the cluster, and returns where it listens.
    pub(crate) fn ready(&mut self) -> Result<SocketAddr> {
        let address = self.0.address()?;
        let mut connection = Connection::open(address)?;
        let pause = Duration::from_millis(20);
        self.0.answers(&mut connection, "/api/snapshot", pause)?;
        Ok(address)
    }

    pub(crate) fn resident_megabytes(&self) -> Result<f64> {
        self.0.process.megabytes("VmRSS:")
    }
}

/// Writes a kubeconfig for the API server at `url`.
pub(crate) fn kubeconfig(directory: &TempDir, url: &str) -> Result<PathBuf> {
    let kubeconfig = directory.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stub",
        "clusters": [{"name": "stub", "cluster": {"server": url}}],
        "users": [{"name": "stub", "user": {}}],
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
    });
    fs::write(&kubeconfig, config.to_string())?;
    Ok(kubeconfig)
}

impl Extender {
    /// Starts the extender against the API server at `url`.
    pub(crate) fn start(url: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let kubeconfig = kubeconfig(&directory, url)?;
        let command = Command::new(program("gpushare-control")?);
        Self::run(command, &kubeconfig, "127.0.0.1:0", directory)
    }

    /// Starts the extender with a given command, such as one that enters a network first.
    pub(crate) fn run(
        mut command: Command,
        kubeconfig: &Path,
        listen: &str,
        directory: TempDir,
    ) -> Result<Self> {
        // A separate lease; otherwise it would wait for the one that its killed predecessor held.
        let lease = format!("bench-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        command.args(["extender", "--listen", listen]).args([
            "--lease-namespace",
            "default",
            "--lease-name",
            &lease,
        ]);
        Control::start("extender", command, kubeconfig, directory).map(Self)
    }

    pub(crate) fn address(&mut self) -> Result<SocketAddr> {
        self.0.address()
    }

    /// Waits until the extender answers, and returns how long after its start that was.
    pub(crate) fn ready(&mut self) -> Result<Duration> {
        let mut connection = Connection::open(self.address()?)?;
        let pause = Duration::from_millis(2);
        self.0.answers(&mut connection, "/readyz", pause)?;
        Ok(self.0.began.elapsed())
    }

    /// Waits until binds are accepted, which takes a while after the start.
    pub(crate) fn binds_open(&mut self) -> Result<()> {
        self.0.logged(|line| {
            let message = line
                .get("message")
                .or_else(|| line.get("fields")?.get("message"))?;
            (message == "binds are open").then_some(())
        })
    }

    /// Waits until no pod waits for room any more. After its start the extender wakes every pending pod once, a few at
    /// a time, and this work must not be measured.
    pub(crate) fn settled(&mut self) -> Result<()> {
        let mut connection = Connection::open(self.address()?)?;
        let ask = Request::get("/metrics");
        loop {
            let metrics = String::from_utf8_lossy(connection.send(&ask)?).into_owned();
            let mut lines = metrics.lines();
            let waiting =
                lines.find_map(|line| line.split_once("waiting_pods ")?.1.parse::<u64>().ok());
            if waiting.context("the extender does not say how many pods wait")? == 0 {
                return Ok(());
            }
            self.0.give_up_late()?;
            thread::sleep(Duration::from_millis(200));
        }
    }

    pub(crate) fn resident_megabytes(&self) -> Result<f64> {
        self.0.process.resident_megabytes()
    }

    pub(crate) fn peak_megabytes(&self) -> Result<f64> {
        self.0.process.megabytes("VmHWM:")
    }
}

impl Control {
    fn start(
        role: &'static str,
        mut command: Command,
        kubeconfig: &Path,
        directory: TempDir,
    ) -> Result<Self> {
        let log = directory.path().join("log");
        let output = File::create(&log)?;
        let began = Instant::now();
        command
            .args(["--log-format", "json", "--kubeconfig"])
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(Self {
            role,
            process: Process::start(&mut command)?,
            log,
            _directory: directory,
            began,
        })
    }

    fn address(&mut self) -> Result<SocketAddr> {
        self.logged(|line| line.get("listen")?.as_str()?.parse().ok())
    }

    /// Waits for a line in the log.
    fn logged<T>(&mut self, wanted: impl Fn(&Value) -> Option<T>) -> Result<T> {
        loop {
            let log = fs::read_to_string(&self.log)?;
            let lines = log
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(found) = lines.into_iter().find_map(|line| wanted(&line)) {
                return Ok(found);
            }
            self.give_up_late()?;
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until it answers a request for this path, which is sent again after each pause.
    fn answers(&mut self, connection: &mut Connection, path: &str, pause: Duration) -> Result<()> {
        let ask = Request::get(path);
        while connection.send(&ask).is_err() {
            self.give_up_late()?;
            thread::sleep(pause);
        }
        Ok(())
    }

    fn give_up_late(&mut self) -> Result<()> {
        if let Some(ended) = self.process.0.try_wait()? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            bail!(
                "the {} ended with {ended}: {}",
                self.role,
                log.lines().last().unwrap_or_default()
            );
        }
        ensure!(
            self.began.elapsed() < PATIENCE,
            "the {} was not ready within {PATIENCE:?}",
            self.role
        );
        Ok(())
    }
}

/// A program that was built beside this one.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(name);
    ensure!(
        program.exists(),
        "{} is not built: run `cargo xtask bench`",
        program.display()
    );
    Ok(program)
}
