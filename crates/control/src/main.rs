//! `gpushare-control`: starts one role of the control plane.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use gpushare_control::cli::{Cli, Role};
use gpushare_daemon::Tasks;
use gpushare_daemon::args::LogArgs;
use gpushare_daemon::causes::with_causes;
use gpushare_dashboard::role as dashboard;
use {gpushare_extender as extender, gpushare_sidecar as sidecar};
use {gpushare_timekeeper as timekeeper, gpushare_webhook as webhook};

/// Longer than an open request may take to drain, shorter than a pod's usual grace period.
const GRACE: Duration = Duration::from_secs(25);

fn main() -> ExitCode {
    match run(Cli::parse().role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpushare-control: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run(role: Role) -> anyhow::Result<()> {
    match role {
        Role::Extender(raw) => {
            let config = configured(&raw.log.clone(), *raw)?;
            until_the_end(async |tasks| Ok(extender::start(config, tasks).await.map(drop)?))
        }
        Role::Webhook(raw) => {
            let config = configured(&raw.log.clone(), *raw)?;
            until_the_end(async |tasks| Ok(webhook::start(config, tasks).await.map(drop)?))
        }
        Role::Timekeeper(raw) => {
            let config = configured(&raw.log.clone(), *raw)?;
            until_the_end(async |tasks| Ok(timekeeper::start(config, tasks).await?))
        }
        Role::Sidecar(raw) => {
            let config = configured(&raw.log.clone(), *raw)?;
            // One thread is enough for it, and costs the pod less.
            let runtime = tokio::runtime::Builder::new_current_thread();
            until_the_end_on(runtime, async |tasks| Ok(sidecar::start(&config, tasks)?))
        }
        Role::Dashboard(raw) => {
            let config = configured(&raw.log.clone(), *raw)?;
            until_the_end(async |tasks| Ok(dashboard::start(config, tasks).await?))
        }
    }
}

/// Resolves the settings of a role, and then starts its log.
fn configured<R, C: TryFrom<R>>(log: &LogArgs, raw: R) -> anyhow::Result<C>
where
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let config = C::try_from(raw)?;
    log.init()?;
    Ok(config)
}

/// Starts a role and waits until it has ended.
fn until_the_end(start: impl AsyncFnOnce(&Tasks) -> anyhow::Result<()>) -> anyhow::Result<()> {
    until_the_end_on(tokio::runtime::Builder::new_multi_thread(), start)
}

fn until_the_end_on(
    mut runtime: tokio::runtime::Builder,
    start: impl AsyncFnOnce(&Tasks) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    runtime
        .enable_all()
        .build()
        .context("cannot start the async runtime")?
        .block_on(async {
            let tasks = Tasks::new();
            tasks
                .stop_on_signals()
                .context("cannot listen for signals")?;
            start(&tasks).await?;
            Ok(tasks.finished(GRACE).await?)
        })
}
