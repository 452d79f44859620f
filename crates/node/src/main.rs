//! `gpushare-node`: starts the agent of one node.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use gpushare_daemon::Tasks;
use gpushare_daemon::causes::with_causes;
use gpushare_node::agent;
use gpushare_node::config::{Cli, Config, RawConfig};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Longer than the start of a container may take, shorter than a pod's usual grace period.
const GRACE: Duration = Duration::from_secs(27);

fn main() -> ExitCode {
    match run(Cli::parse().config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpushare-node: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run(raw: RawConfig) -> anyhow::Result<()> {
    let log = raw.log.clone();
    let config = Config::try_from(raw)?;
    log.init()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let ended = runtime.block_on(serve(&config));
    // A call into a driver that hangs must not keep the process.
    runtime.shutdown_background();
    ended
}

async fn serve(config: &Config) -> anyhow::Result<()> {
    let tasks = Tasks::new();
    tasks
        .stop_on_signals()
        .context("cannot listen for signals")?;
    let client = client(config).await?;
    tracing::info!(node = %config.node, version = env!("CARGO_PKG_VERSION"), "starting");
    agent::start(config, Some(client), &tasks)?;
    Ok(tasks.finished(GRACE).await?)
}

async fn client(config: &Config) -> anyhow::Result<Client> {
    let resolved = match &config.kubeconfig {
        None => kube::Config::infer()
            .await
            .context("cannot find out how to reach the API server; set --kubeconfig")?,
        Some(path) => {
            let unreadable = || format!("cannot use the kubeconfig {}", path.display());
            let kubeconfig = Kubeconfig::read_from(path).with_context(unreadable)?;
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
            gpushare_kube::proxy::none_to_loopback(config.with_context(unreadable)?)
        }
    };
    Client::try_from(resolved).context("cannot make a client of the API server")
}
