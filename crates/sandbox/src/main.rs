//! `gpushare-sandbox`: starts a cluster in this process, tells a story on it, and stays up until Ctrl-C.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use gpushare_daemon::causes::with_causes;
use gpushare_daemon::logging::{self, Format};
use gpushare_sandbox::fleet::AGENTS;
use gpushare_sandbox::story::{Player, Story};
use gpushare_sandbox::{Options, Sandbox};
use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long tasks that ignore the shutdown may still run.
const LAST_MOMENTS: Duration = Duration::from_secs(2);
/// The exit code after a second Ctrl-C.
const INTERRUPTED: i32 = 130;

#[derive(Parser)]
#[command(
    name = "gpushare-sandbox",
    version,
    about = "A whole cluster in one process to try gpushare in, without a GPU or Kubernetes"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    match run(&Cli::parse().options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpushare-sandbox: {}", with_causes(&*error));
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    // Signals are caught before anything exists that the program would have to remove.
    let signals = runtime.block_on(async { Signals::listen() })?;
    let home = Arc::new(Sandbox::make_home()?);
    let path = home.path().to_owned();
    let ended = runtime.block_on(async {
        let stop = signals.stop(path);
        tell_in(Arc::clone(&home), story.as_ref(), options, &stop).await
    });
    // Components that still run could write into the directory.
    runtime.shutdown_timeout(LAST_MOMENTS);
    let removed = Arc::into_inner(home).map_or(Ok(()), gpushare_sandbox::remove);
    ended.and(removed.map_err(Into::into))
}

async fn tell_in(
    home: Arc<TempDir>,
    story: Option<&Story>,
    options: &Options,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let starting = Sandbox::start_in(home, options);
    // A signal can also cancel the start. What was started by then ends with it.
    let Some(sandbox) = stop.run_until_cancelled(starting).await else {
        return Ok(());
    };
    let sandbox = sandbox?;
    greet(&sandbox);
    let watched = stop
        .run_until_cancelled(watch(&sandbox, story, options))
        .await;
    let stopped = sandbox.stop().await;
    watched.unwrap_or(Ok(()))?;
    Ok(stopped?)
}

/// The signals that ask the program to end, from Ctrl-C, a service manager, or a terminal that is closed.
struct Signals([Signal; 3]);

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Requests an orderly end at the first signal. At the second, removes the directory and exits.
    fn stop(mut self, home: PathBuf) -> CancellationToken {
        let stop = CancellationToken::new();
        let signalled = stop.clone();
        tokio::spawn(async move {
            self.next().await;
            tell(format_args!("\nEnding. A second Ctrl-C ends at once."));
            signalled.cancel();
            self.next().await;
            // Components still run and may write once more while the directory is being emptied.
            let mut attempts = 0..10;
            while attempts.next().is_some() && home.exists() {
                let _tried_again = std::fs::remove_dir_all(&home);
            }
            std::process::exit(INTERRUPTED);
        });
        stop
    }
}

/// Returns when a component or the story fails. With `exit_after_story`, also when the story is over.
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
    let (kubeconfig, example) = (quoted(sandbox.kubeconfig()), quoted(sandbox.example()));
    let dashboard = sandbox.dashboard();
    let nodes = sandbox.machines().len();
    let cards: usize = sandbox.machines().iter().map(|m| m.cards.len()).sum();
    let agents = nodes.min(AGENTS);
    tell(format_args!(
        "gpushare sandbox: {nodes} nodes with {cards} cards, all simulated.

  production code   extender, admission webhook, timekeeper, dashboard,
                    node agents (on the first {agents} nodes)
  stand-ins         API server, scheduler, controllers, kubelets, cards;
                    containers are not run

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

/// The path, quoted for a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%,=".contains(letter);
    if path.chars().all(plain) {
        return path;
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}

/// Prints a line. The cluster keeps running even if nobody reads the output any more.
fn tell(text: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout();
    let _unread = writeln!(out, "{text}").and_then(|()| out.flush());
}
