//! A PostgreSQL server for one test: in a temporary directory, on a unix socket. It ends when the value is dropped or
//! the process ends in any way.

mod programs;

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::exec;

/// Long enough for a loaded machine; reaching it is a failure, not a measurement.
const PATIENCE: Duration = Duration::from_mins(3);
const PORT_TRIES: u32 = 5;
/// PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;

pub const USER: &str = "gpushare";

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    pid: Pid,
    keeper: Option<JoinHandle<()>>,
    directory: TempDir,
    /// Where it listens on loopback; only with TLS.
    port: Option<u16>,
}

impl Postgres {
    /// A server for tests. They kill processes but not the machine, so data in the kernel's buffers is safe enough.
    pub fn start() -> Result<Self> {
        Self::with(&["fsync=off"], None)
    }

    /// A server that clients reach over TCP with TLS, with this certificate and key (PEM).
    pub fn with_tls(certificate: &str, key: &str) -> Result<Self> {
        let mut last = None;
        for _ in 0..PORT_TRIES {
            match Self::with(&["fsync=off"], Some((certificate, key))) {
                Ok(server) => return Ok(server),
                // Another process may have taken the port meanwhile.
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow!("no port was tried")))
    }

    /// A server whose every commit waits for the disk, like one in production.
    pub fn durable() -> Result<Self> {
        Self::with(&["fsync=on", "synchronous_commit=on"], None)
    }

    fn with(durability: &[&str], tls: Option<(&str, &str)>) -> Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a directory for PostgreSQL")?;
        if geteuid().is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY))
                .context("cannot hand a directory to the user of PostgreSQL")?;
        }
        let programs = programs::find(directory.path())?;
        let data = directory.path().join("data");
        let mut initdb = unprivileged(&programs.path("initdb"));
        initdb.arg("--pgdata").arg(&data).args(["--username", USER]);
        initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        exec::output(programs.announce(&mut initdb)).context("cannot make a database")?;

        let mut server = unprivileged(&programs.path("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(directory.path());
        for setting in ["timezone=GMT", "max_connections=200"]
            .iter()
            .chain(durability)
        {
            server.args(["-c", setting]);
        }
        let port = tls.map(|pair| serve_tls(&mut server, directory.path(), pair));
        let port = port.transpose()?;
        if port.is_none() {
            server.args(["-c", "listen_addresses="]);
        }
        programs.announce(&mut server);
        let log = directory.path().join("log");
        let (pid, keeper) = keep(server, &log)?;
        let server = Self {
            pid,
            keeper: Some(keeper),
            directory,
            port,
        };
        server.wait_ready(&log)?;
        Ok(server)
    }

    /// The directory with its socket, which clients name as the host.
    pub fn socket(&self) -> &Path {
        self.directory.path()
    }

    /// Its port on 127.0.0.1, if it has one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    fn wait_ready(&self, log: &Path) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // The server writes this line last.
        let status = self.directory.path().join("data/postmaster.pid");
        loop {
            let ready = fs::read_to_string(&status).is_ok_and(|text| text.contains("\nready"));
            if ready {
                return Ok(());
            }
            let ended = self.keeper.as_ref().is_none_or(JoinHandle::is_finished);
            if ended || Instant::now() > deadline {
                let said = fs::read_to_string(log).unwrap_or_default();
                bail!("PostgreSQL did not start:\n{said}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Asks for a fast shutdown. The server may have ended by itself.
        let _ended = kill_process(self.pid, Signal::INT);
        if let Some(keeper) = self.keeper.take() {
            let _panicked = keeper.join();
        }
    }
}

/// Lets the server listen on a free port of loopback with this certificate and key. Returns the port.
fn serve_tls(server: &mut Command, directory: &Path, (chain, key): (&str, &str)) -> Result<u16> {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = free.context("no free port for PostgreSQL")?.port();
    let (chain_file, key_file) = (directory.join("server.crt"), directory.join("server.key"));
    for (path, text) in [(&chain_file, chain), (&key_file, key)] {
        fs::write(path, text).context("cannot write PostgreSQL's certificate")?;
        // PostgreSQL refuses a key that other users could read.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        if geteuid().is_root() {
            chown(path, Some(NOBODY), Some(NOBODY))?;
        }
    }
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", chain_file.display()),
        format!("ssl_key_file={}", key_file.display()),
    ];
    for setting in &settings {
        server.args(["-c", setting]);
    }
    Ok(port)
}

/// A program that ends with this process. It runs as `nobody` if this process runs as root.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]);
    if geteuid().is_root() {
        let nobody = NOBODY.to_string();
        command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]);
    }
    command
        .arg("--")
        .arg(program)
        .env("LC_ALL", "C")
        .env("TZ", "GMT");
    command
}

/// Starts the server from a thread that lives as long as the server: the kernel ends it when the thread that started it
/// ends.
fn keep(mut server: Command, log: &Path) -> Result<(Pid, JoinHandle<()>)> {
    let output = File::create(log).context("cannot write PostgreSQL's log")?;
    let errors = output
        .try_clone()
        .context("cannot share PostgreSQL's log")?;
    let (started, start) = mpsc::channel();
    let keeper = thread::spawn(move || {
        server.stdin(Stdio::null()).stdout(output).stderr(errors);
        match server.spawn() {
            Ok(mut child) => {
                let _gone = started.send(Ok(child.id()));
                let _status = child.wait();
            }
            Err(error) => {
                let _gone = started.send(Err(error));
            }
        }
    });
    let id = start
        .recv()
        .context("cannot start PostgreSQL")?
        .context("cannot start PostgreSQL with setpriv (from util-linux)")?;
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    Ok((pid.context("PostgreSQL has a strange process id")?, keeper))
}

/// The directories that hold PostgreSQL's programs and libraries.
#[derive(Debug)]
struct Programs {
    directory: PathBuf,
    libraries: Option<PathBuf>,
}

impl Programs {
    fn path(&self, program: &str) -> PathBuf {
        self.directory.join(program)
    }

    fn announce<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match &self.libraries {
            Some(libraries) => command.env("LD_LIBRARY_PATH", libraries),
            None => command,
        }
    }
}

/// Whether every user may enter a directory and all directories above it.
fn open_to_all(directory: &Path) -> Result<bool> {
    for part in directory.ancestors() {
        let mode = fs::metadata(part)
            .with_context(|| format!("cannot examine {}", part.display()))?
            .mode();
        if mode & 0o5 != 0o5 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A copy of a directory that the server's user may enter.
fn copied(from: &Path, into: &Path) -> Result<PathBuf> {
    let copy = into.join("programs");
    let status = Command::new("cp").arg("-a").arg(from).arg(&copy).status();
    ensure!(
        status.context("cannot start cp")?.success(),
        "cannot copy {} to {}",
        from.display(),
        copy.display()
    );
    exec::output(Command::new("chmod").args(["-R", "a+rX"]).arg(&copy))?;
    Ok(copy)
}
