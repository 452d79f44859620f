//! Puts everything together, and takes it apart again.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpushare_apiserver::Server;
use gpushare_core::gpu;
use gpushare_daemon::Tasks;
use gpushare_ledger::store::database::{Database, Files};
use kube::Client;
use tempfile::TempDir;
use {
    gpushare_extender as extender, gpushare_timekeeper as timekeeper, gpushare_webhook as webhook,
};

use crate::controllers::Controllers;
use crate::error::SandboxError;
use crate::fleet::{self, Machine, READING};
use crate::kubelet::{self, Kubelets, LogBook};
use crate::mirror::Mirror;
use crate::options::Options;
use crate::pace::Pace;
use crate::scheduler::Scheduler;
use crate::{api, install};

/// Longer than any component takes to end.
const GRACE: Duration = Duration::from_secs(30);
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const EXAMPLE: &str = include_str!("../stories/mine.yaml");
/// The bytes of a unix socket's path, without the one that ends it.
const LONGEST_SOCKET: usize = 107;
const MIB: usize = 1024 * 1024;
const HOUR: Duration = Duration::from_hours(1);

/// A running cluster.
pub struct Sandbox {
    server: Server,
    tasks: Tasks,
    home: Arc<TempDir>,
    kubeconfig: PathBuf,
    example: PathBuf,
    extender: SocketAddr,
    dashboard: SocketAddr,
    machines: Vec<Machine>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("home", &self.home.path())
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// A directory for a sandbox, removed when the value is dropped.
    pub fn make_home() -> Result<TempDir, SandboxError> {
        let home = tempfile::Builder::new()
            .prefix("gpushare-sandbox-")
            .tempdir()
            .map_err(SandboxError::Directory)?;
        let longest = kubelet::longest_socket(home.path());
        if longest > LONGEST_SOCKET {
            return Err(SandboxError::LongDirectory(home.path().to_owned()));
        }
        Ok(home)
    }

    /// Starts everything and waits until pods can be scheduled.
    pub async fn start(options: &Options) -> Result<Self, SandboxError> {
        Self::start_in(Arc::new(Self::make_home()?), options).await
    }

    /// Like [`Self::start`], in a directory that the caller may keep for longer. If the future is dropped, everything
    /// that was started ends.
    pub async fn start_in(home: Arc<TempDir>, options: &Options) -> Result<Self, SandboxError> {
        options.check()?;
        let tasks = Tasks::new();
        let unfinished = tasks.shutdown().clone().drop_guard();
        let started = Self::start_all(home, options, &tasks).await?;
        unfinished.disarm();
        Ok(started)
    }

    async fn start_all(
        home: Arc<TempDir>,
        options: &Options,
        tasks: &Tasks,
    ) -> Result<Self, SandboxError> {
        let pace = Pace::new(options.speed);
        let logs = Arc::new(LogBook::default());
        let server = api::start(Arc::clone(&logs) as Arc<dyn gpushare_apiserver::Logs>).await?;
        let kubeconfig = api::write_kubeconfig(&server, home.path())?;
        let example = home.path().join("mine.yaml");
        std::fs::write(&example, EXAMPLE).map_err(|source| SandboxError::File {
            path: example.clone(),
            source,
        })?;
        let client = server.client();
        install::namespace(&client).await?;
        let pods = Mirror::start(&client, tasks, "the sandbox's view of pods");
        let nodes = Mirror::start(&client, tasks, "the sandbox's view of nodes");

        let machines = fleet::machines(options.nodes);
        let kubelets = Kubelets {
            client: client.clone(),
            pods: Arc::clone(&pods),
            logs,
            pace,
            tasks: tasks.clone(),
        };
        kubelets.start(&machines, home.path()).await?;
        Controllers::start(&client, &pods, tasks);
        let extender = extender::start(extender_config(&kubeconfig), tasks).await?;
        let webhook = webhook::start(webhook_config(&kubeconfig), tasks).await?;
        install::webhook(&client, webhook).await?;
        let timekeeper = timekeeper_config(&kubeconfig, home.path())?;
        timekeeper::start(timekeeper, tasks).await?;
        Scheduler::start(&client, pods, nodes, extender, pace, tasks)?;
        install::webhook_answers(&client).await?;
        let dashboard = gpushare_dashboard::start(&client, dashboard_config(), tasks)?;
        Ok(Self {
            server,
            tasks: tasks.clone(),
            home,
            kubeconfig,
            example,
            extender,
            dashboard,
            machines,
        })
    }

    pub fn client(&self) -> Client {
        self.server.client()
    }

    /// For kubectl and our plugins.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A manifest that the user can try first.
    pub fn example(&self) -> &Path {
        &self.example
    }

    /// Where the extender answers, for `/explain` and `/metrics`.
    pub fn extender(&self) -> SocketAddr {
        self.extender
    }

    /// Where browsers see everything, live.
    pub fn dashboard(&self) -> SocketAddr {
        self.dashboard
    }

    /// The directory that everything lies in.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The components. Their shutdown begins when one of them fails or the sandbox is to end.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Ends every component, the API server last, and removes the directory unless the caller keeps it. Says which
    /// component had failed, if one had.
    pub async fn stop(self) -> Result<(), SandboxError> {
        self.tasks.shutdown().cancel();
        let ended = self.tasks.finished(GRACE).await;
        self.server.shutdown().await;
        if let Some(home) = Arc::into_inner(self.home) {
            remove(home)?;
        }
        Ok(ended?)
    }
}

/// Removes a sandbox's directory, and says so if it cannot.
pub fn remove(home: TempDir) -> Result<(), SandboxError> {
    let path = home.path().to_owned();
    home.close()
        .map_err(|source| SandboxError::File { path, source })
}

fn extender_config(kubeconfig: &Path) -> extender::config::Config {
    extender::config::Config {
        aliyun_unit: READING.aliyun,
        dialects: gpu::read(READING),
        kubeconfig: Some(kubeconfig.to_owned()),
        ..extender::config::Config::alone()
    }
}

/// The timekeeper works at shorter intervals than in a cluster, so that users can watch a budget run out. The amounts
/// that it charges are the same.
fn timekeeper_config(
    kubeconfig: &Path,
    home: &Path,
) -> Result<timekeeper::config::Config, SandboxError> {
    let ledger = home.join("ledger.db");
    Ok(timekeeper::config::Config {
        listen: LOOPBACK,
        admin_listen: None,
        tls: None,
        database: Database::parse(&ledger.to_string_lossy(), Files::default())?,
        pace: timekeeper::config::Pace {
            grid: 5,
            interval: Duration::from_millis(500),
            status: Duration::from_secs(1),
            retention: None,
        },
        election: None,
        dialects: gpu::read(READING),
        kubeconfig: Some(kubeconfig.to_owned()),
        clock: timekeeper::clock::Clock::system(),
    })
}

/// The dashboard needs no login, because only this machine can connect.
fn dashboard_config() -> gpushare_dashboard::Config {
    gpushare_dashboard::Config {
        listen: LOOPBACK,
        admin_listen: None,
        tls: None,
        access: gpushare_dashboard::access::Access::Open,
        dialects: gpu::read(READING),
        sample_every: Duration::from_secs(2),
    }
}

fn webhook_config(kubeconfig: &Path) -> webhook::config::Config {
    webhook::config::Config {
        listen: LOOPBACK,
        admin_listen: None,
        certificates: webhook::config::Certificates::Own {
            settings: webhook::Settings {
                namespace: install::NAMESPACE.to_owned(),
                secret: "gpushare-webhook-tls".to_owned(),
                configuration: "gpushare".to_owned(),
                names: vec![Ipv4Addr::LOCALHOST.to_string()],
                lifetimes: webhook::Lifetimes {
                    authority: 8760 * HOUR,
                    certificate: 720 * HOUR,
                    overlap: HOUR / 6,
                },
            },
            client_ca: None,
        },
        // Containers are not run, so none could read what a sidecar reports.
        sidecar: None,
        dialects: gpu::read(READING),
        band: i32::MIN..=1_000_000_000,
        kubeconfig: Some(kubeconfig.to_owned()),
        max_body: 8 * MIB,
    }
}
