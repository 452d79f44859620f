//! `gpushare-control`: starts one role of the control plane.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};
use gpushare_control::config::{Config, RawConfig};
use gpushare_control::extender;
use gpushare_daemon::{Tasks, logging};

/// Longer than an open request may take to drain, shorter than a pod's usual grace period.
const GRACE: Duration = Duration::from_secs(25);

#[derive(Parser)]
#[command(
    name = "gpushare-control",
    version,
    about = "The control plane of gpushare"
)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Serve kube-scheduler: filter, prioritize and bind pods that share GPUs
    Extender(RawConfig),
}

fn main() -> ExitCode {
    let Role::Extender(raw) = Cli::parse().role;
    match run(raw) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpushare-control: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(raw: RawConfig) -> anyhow::Result<()> {
    let config = Config::try_from(raw)?;
    logging::init(config.log_format, &config.log_filter)?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?
        .block_on(async {
            let tasks = Tasks::new();
            tasks
                .stop_on_signals()
                .context("cannot listen for signals")?;
            extender::start(config, &tasks).await?;
            Ok(tasks.finished(GRACE).await?)
        })
}
