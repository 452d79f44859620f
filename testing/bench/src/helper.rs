//! The helper processes. This program starts itself again for each of them, because the measured code must not share a
//! process with the code that measures it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use clap::Subcommand;
use futures::TryStreamExt;
use gpushare_daemon::serve::Connections;
use gpushare_daemon::tls::{Tls, TlsFiles};
use gpushare_daemon::{Tasks, serve};
use gpushare_kube::slim;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::{floor, stub, tenants};

/// The page size that kube's watcher uses.
const PAGE: u32 = 500;
const GRACE: Duration = Duration::from_secs(1);

#[derive(Subcommand)]
pub(crate) enum Helper {
    /// Serve the objects of the measured cluster
    #[command(hide = true)]
    ServeApi {
        #[arg(long)]
        pods: usize,
        #[arg(long)]
        pending: usize,
        #[arg(long)]
        bind_millis: u64,
    },
    /// Serve what filter and prioritize cost without deciding
    #[command(hide = true)]
    ServeFloor,
    /// Serve the namespaces and budgets that the measured webhook knows
    #[command(hide = true)]
    ServeTenants,
    /// Serve what an admission costs without deciding, with TLS
    #[command(hide = true)]
    ServeAdmissionFloor {
        #[arg(long)]
        certificate: PathBuf,
        #[arg(long)]
        key: PathBuf,
    },
    /// List and decode all nodes and pods, and end
    #[command(hide = true)]
    List {
        #[arg(long)]
        url: String,
    },
}

impl Helper {
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Self::ServeApi {
                pods,
                pending,
                bind_millis,
            } => {
                let bind_takes = Duration::from_millis(*bind_millis);
                let router = stub::router(*pods, *pending, bind_takes)?;
                runtime()?.block_on(serve_until_told(router, None))
            }
            Self::ServeFloor => runtime()?.block_on(serve_until_told(floor::router(), None)),
            Self::ServeTenants => runtime()?.block_on(serve_until_told(tenants::router(), None)),
            Self::ServeAdmissionFloor { certificate, key } => {
                let tls = Tls::load(TlsFiles {
                    certificate: certificate.clone(),
                    key: key.clone(),
                    client_ca: None,
                })?;
                let router = floor::admission::router();
                runtime()?.block_on(serve_until_told(router, Some(tls)))
            }
            Self::List { url } => runtime()?.block_on(list_all(url)),
        }
    }
}

/// A runtime like the extender's own.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}

async fn serve_until_told(router: Router, tls: Option<Tls>) -> Result<()> {
    let tasks = Tasks::new();
    tasks.stop_on_signals()?;
    let listener = serve::listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = listener.local_addr()?;
    let connections = Connections::default();
    serve::spawn(&tasks, "the server", listener, tls, router, connections);
    println!("{address}");
    std::io::stdout().flush()?;
    Ok(tasks.finished(GRACE).await?)
}

/// A client as the extender makes it.
pub(crate) fn client(url: &str) -> Result<Client> {
    let mut config = kube::Config::new(url.parse().context("the API server's URL")?);
    config.default_retry = false;
    Client::try_from(config).context("cannot make a client")
}

async fn list_all(url: &str) -> Result<()> {
    let client = client(url)?;
    let (nodes, pods) = tokio::try_join!(
        tokio::spawn(list::<slim::Node>(client.clone())),
        tokio::spawn(list::<slim::Pod>(client)),
    )?;
    println!("{} {}", nodes?, pods?);
    Ok(())
}

/// Lists page after page and keeps only the count.
async fn list<K>(client: Client) -> Result<usize>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client);
    let pages = futures::stream::try_unfold(Some(None::<String>), |page| {
        let api = api.clone();
        async move {
            let Some(from) = page else {
                return anyhow::Ok(None);
            };
            let mut params = ListParams::default().limit(PAGE);
            params.continue_token = from;
            let list = api.list(&params).await?;
            let next = list.metadata.continue_.filter(|token| !token.is_empty());
            Ok(Some((list.items.len(), next.map(Some))))
        }
    });
    pages
        .try_fold(0, async |sum, length| Ok(sum + length))
        .await
}
