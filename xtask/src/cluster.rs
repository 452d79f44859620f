//! `cargo xtask cluster`: the real cluster of the tests, for a user.
//!
//! A keeper process owns the cluster and holds the lock on its record; when the keeper ends,
//! however it ends, so does the cluster. The record tells other processes where things are.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use gpushare_rig::cache::{self, Lock};
use gpushare_rig::{Binaries, Options, Rig, host};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Start, show and stop a real Kubernetes cluster for yourself
///
/// The cluster has one node and lives in namespaces of its own; a port on this machine's loopback
/// leads to its API server, so that plain kubectl works with the printed KUBECONFIG. Images are not
/// pulled: use gpushare.test/busybox:1 with imagePullPolicy: Never.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Start a cluster; a running one is only shown
    Up {
        #[command(flatten)]
        which: Which,
        /// Stay attached: Ctrl-C stops the cluster
        #[arg(long)]
        foreground: bool,
    },
    /// Stop a cluster; one that is not running is fine, too
    Down(Which),
    /// Say whether a cluster runs and how to reach it
    Status(Which),
}

#[derive(clap::Args)]
struct Which {
    /// Which cluster: several can run at once
    #[arg(long, default_value = "default")]
    name: String,
}

/// How long a cluster may take to end.
const END_DEADLINE: Duration = Duration::from_mins(2);

/// How to reach a running cluster.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    keeper: i32,
    init: i32,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    logs: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.action {
        Action::Up {
            which,
            foreground: true,
        } => keep(&Files::of(which)?),
        Action::Up {
            which,
            foreground: false,
        } => up(&Files::of(which)?),
        Action::Down(which) => down(&Files::of(which)?),
        Action::Status(which) => status(&Files::of(which)?),
    }
}

/// The files of one cluster in the cache.
struct Files {
    name: String,
    lock: PathBuf,
    record: PathBuf,
    kubeconfig: PathBuf,
    log: PathBuf,
}

impl Files {
    fn of(which: &Which) -> Result<Self> {
        let name = which.name.clone();
        gpushare_rig::check_name(&name)?;
        let dir = cache::root()?.join("clusters");
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let file = |extension: &str| dir.join(format!("{name}.{extension}"));
        Ok(Self {
            lock: file("lock"),
            record: file("json"),
            kubeconfig: file("kubeconfig"),
            log: file("log"),
            name,
        })
    }

    /// The record of the cluster if its keeper is alive.
    fn running(&self) -> Result<Option<Record>> {
        if Lock::try_take(&self.lock)?.is_some() {
            return Ok(None);
        }
        let Ok(text) = fs::read_to_string(&self.record) else {
            return Ok(None);
        };
        let record = serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged", self.record.display()))?;
        Ok(Some(record))
    }

    fn forget(&self) {
        for file in [&self.record, &self.kubeconfig] {
            // The file may not exist.
            let _ = fs::remove_file(file);
        }
    }
}

/// Starts a keeper that outlives us, and waits for its record.
fn up(files: &Files) -> Result<()> {
    if let Some(record) = files.running()? {
        println!("the cluster {} is already running", files.name);
        explain(&record);
        return Ok(());
    }
    host::check()?;
    // Done here, where the user sees the progress, and not in the keeper.
    Binaries::ensure()?;
    files.forget();
    let log = File::create(&files.log)
        .with_context(|| format!("cannot write {}", files.log.display()))?;
    let errors = log.try_clone().context("cannot share the keeper's log")?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut keeper = Command::new(program)
        .args(["cluster", "up", "--foreground", "--name", &files.name])
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        // Ctrl-C in this terminal must not reach the keeper.
        .process_group(0)
        .current_dir("/")
        .spawn()
        .context("cannot start the cluster's keeper")?;
    eprintln!("starting the cluster {} ...", files.name);
    loop {
        if let Some(record) = files.running()? {
            explain(&record);
            return Ok(());
        }
        if let Some(status) = keeper.try_wait().context("cannot wait for the keeper")? {
            let log = fs::read_to_string(&files.log).unwrap_or_default();
            bail!(
                "the cluster {} did not start ({status}):\n{}",
                files.name,
                log.trim_end()
            );
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Owns a cluster until the cluster ends or this process is told to end.
fn keep(files: &Files) -> Result<()> {
    let Some(_lock) = Lock::try_take(&files.lock)? else {
        bail!("the cluster {} is already running", files.name);
    };
    files.forget();
    let rig = Rig::start(Options {
        name: Some(files.name.clone()),
        ..Options::default()
    })?;
    let bridge = rig.bridge()?;
    let kubeconfig = fs::read_to_string(rig.kubeconfig()).context("cannot read the kubeconfig")?;
    let kubeconfig = kubeconfig.replace(
        &format!(
            "https://{}:{}",
            gpushare_rig::NODE_IP,
            gpushare_rig::API_PORT
        ),
        &format!("https://{}", bridge.address()),
    );
    write_private(&files.kubeconfig, &kubeconfig)?;
    let record = Record {
        keeper: i32::try_from(std::process::id()).context("a pid")?,
        init: rig.pid(),
        kubeconfig: files.kubeconfig.clone(),
        kubectl: rig.kubectl_path(),
        logs: rig.logs(),
    };
    // Written by rename, so that a reader sees all of it or nothing.
    let partial = files.record.with_extension("partial");
    fs::write(&partial, serde_json::to_string_pretty(&record)?)
        .and_then(|()| fs::rename(&partial, &files.record))
        .context("cannot write the cluster's record")?;
    explain(&record);
    loop {
        if let Some(reason) = rig.ended() {
            files.forget();
            bail!("the cluster {} has ended: {reason}", files.name);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn down(files: &Files) -> Result<()> {
    let Some(record) = files.running()? else {
        files.forget();
        println!("the cluster {} is not running", files.name);
        return Ok(());
    };
    // The lock shows that the keeper is alive, so the pid is the keeper's. The cluster ends with it.
    let keeper = Pid::from_raw(record.keeper).context("the record has no valid pid")?;
    kill_process(keeper, Signal::TERM).context("cannot stop the cluster's keeper")?;
    let deadline = Instant::now() + END_DEADLINE;
    while Lock::try_take(&files.lock)?.is_none() || gpushare_rig::is_running(&files.name)? {
        if Instant::now() >= deadline {
            bail!(
                "the cluster {} does not end; its keeper is process {}",
                files.name,
                record.keeper
            );
        }
        thread::sleep(Duration::from_millis(50));
    }
    files.forget();
    println!("the cluster {} is stopped", files.name);
    Ok(())
}

fn status(files: &Files) -> Result<()> {
    match files.running()? {
        Some(record) => {
            println!("the cluster {} is running", files.name);
            explain(&record);
        }
        None => println!("the cluster {} is not running", files.name),
    }
    Ok(())
}

fn explain(record: &Record) {
    let Record {
        init,
        kubeconfig,
        kubectl,
        logs,
        ..
    } = record;
    let bin = kubectl.parent().unwrap_or(Path::new("."));
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!(
        "  export PATH={}:$PATH          # kubectl of the cluster's version",
        bin.display()
    );
    println!("  kubectl get nodes");
    println!(
        "inside the cluster's node:  nsenter --target {init} --mount --net --pid --ipc --uts sh"
    );
    println!("logs:                       {}", logs.display());
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
