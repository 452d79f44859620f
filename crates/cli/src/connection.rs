//! The way to a cluster: kubeconfig, and whole lists of objects. Reads only.

use std::future::Future;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use kube::api::{ListParams, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// How large a page of a list may be.
const PAGE: u32 = 500;

/// Which cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct Connection {
    /// Path of the kubeconfig; without it KUBECONFIG or the default path
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// What can be listed, in all namespaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    path: &'static str,
    name: &'static str,
}

pub(crate) const NODES: Kind = Kind {
    path: "/api/v1/nodes",
    name: "nodes",
};
pub(crate) const PODS: Kind = Kind {
    path: "/api/v1/pods",
    name: "pods",
};

/// Which objects of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Only<'a> {
    Everything,
    Fields(&'a str),
    Labels(&'a str),
}

impl<'a> Only<'a> {
    pub(crate) fn fields(fields: Option<&'a str>) -> Self {
        fields.map_or(Self::Everything, Self::Fields)
    }

    pub(crate) fn labels(labels: Option<&'a str>) -> Self {
        labels.map_or(Self::Everything, Self::Labels)
    }
}

impl Connection {
    /// Whether something was said about the cluster.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = match &self.kubeconfig {
            Some(path) => {
                let unusable = || format!("cannot use the kubeconfig {}", path.display());
                let kubeconfig = Kubeconfig::read_from(path).with_context(unusable)?;
                let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
                config.with_context(unusable)?
            }
            None => Config::from_kubeconfig(&options)
                .await
                .context("cannot find a cluster: give --kubeconfig or set KUBECONFIG")?,
        };
        Client::try_from(config).context("cannot set up the Kubernetes client")
    }
}

/// Waits for what needs the network.
pub(crate) fn wait_for<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?
        .block_on(work)
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// Hands each object to `take`, page by page, so that a large cluster needs no large memory.
pub(crate) async fn each<T: DeserializeOwned>(
    client: &Client,
    kind: Kind,
    only: Only<'_>,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let Kind { path, name } = kind;
    let mut params = ListParams::default().limit(PAGE);
    params = match only {
        Only::Everything => params,
        Only::Fields(fields) => params.fields(fields),
        Only::Labels(labels) => params.labels(labels),
    };
    loop {
        let request = Request::new(path)
            .list(&params)
            .with_context(|| format!("cannot ask for {name}"))?;
        let page: Page<T> = client.request(request).await.with_context(|| {
            format!("cannot list {name}; check the kubeconfig and that you may list {name} in all namespaces")
        })?;
        page.items.into_iter().try_for_each(&mut take)?;
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}
