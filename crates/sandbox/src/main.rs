//! `gpushare-sandbox`: starts a cluster in this process, tells a story on it, and stays up until Ctrl-C.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use gpushare_daemon::logging::{self, Format};
use gpushare_sandbox::fleet::AGENTS;
use gpushare_sandbox::story::{Player, Story};
use gpushare_sandbox::{Options, Sandbox};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
#[command(
    name = "gpushare-sandbox",
    version,
    about = "A whole cluster in one process to try gpushare on, without a GPU or Kubernetes"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    match run(&Cli::parse().options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpushare-sandbox: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    options.check()?;
    let story = match (&options.scenario, options.no_story) {
        (Some(path), _) => Some(Story::read(path)?),
        (None, false) => Some(Story::built_in()?),
        (None, true) => None,
    };
    if options.log != "off" {
        logging::init(Format::Text, &options.log)?;
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?
        .block_on(async {
            let stop = stop_on_signals()?;
            let starting = Sandbox::start(options);
            // Also during the start: what was made by then goes with it.
            let Some(sandbox) = stop.run_until_cancelled(starting).await else {
                return Ok(());
            };
            let sandbox = sandbox?;
            greet(&sandbox);
            let watched = stop
                .run_until_cancelled(watch(&sandbox, story.as_ref(), options))
                .await;
            let stopped = sandbox.stop().await;
            watched.unwrap_or(Ok(()))?;
            Ok(stopped?)
        })
}

fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let signalled = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        signalled.cancel();
    });
    Ok(stop)
}

/// Until the story is over, where that is asked for, or until a component fails.
async fn watch(sandbox: &Sandbox, story: Option<&Story>, options: &Options) -> anyhow::Result<()> {
    let failed = sandbox.tasks().shutdown().cancelled();
    let telling = async {
        if let Some(story) = story {
            let mut out = std::io::stdout();
            Player::new(sandbox.client(), options.speed, &mut out)
                .play(story)
                .await?;
        }
        if !options.exit_after_story {
            tell(format_args!(
                "\nThe cluster stays up. Ctrl-C ends it and removes everything."
            ));
            std::future::pending::<()>().await;
        }
        Ok(())
    };
    tokio::select! {
        () = failed => Ok(()),
        told = telling => told,
    }
}

fn greet(sandbox: &Sandbox) {
    let kubeconfig = sandbox.kubeconfig().display();
    let (example, dashboard) = (sandbox.example().display(), sandbox.dashboard());
    let nodes = sandbox.machines().len();
    let cards: usize = sandbox.machines().iter().map(|m| m.cards.len()).sum();
    let agents = nodes.min(AGENTS);
    tell(format_args!(
        "gpushare sandbox: {nodes} nodes with {cards} cards, all simulated.

  production code   extender, admission webhook, timekeeper, dashboard, node agents (on the first {agents} nodes)
  stand-ins         API server, scheduler, controllers, kubelets, cards; containers are not run

  dashboard         http://{dashboard}
  export KUBECONFIG={kubeconfig}

Three things to try in another terminal:
  kubectl get nodes,pods,gpubudgets -A
  kubectl apply -f {example}
  kubectl logs deployment/mine      # which card a container got, and how much of it

  curl http://{}/explain       # why pods wait, for programs",
        sandbox.extender()
    ));
}

/// Whoever does not read any more does not end the cluster.
fn tell(text: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout();
    let _unread = writeln!(out, "{text}").and_then(|()| out.flush());
}
