//! The way to a cluster: kubeconfig, and whole lists of objects. Reads only.

use std::future::Future;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use kube::api::{ListParams, Request};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
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
pub(crate) const BUDGETS: Kind = Kind {
    path: "/apis/gpushare.io/v1alpha1/gpubudgets",
    name: "gpubudgets",
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
        let config = Config::from_custom_kubeconfig(self.kubeconfig()?, &options).await;
        let config = config.with_context(|| match &self.kubeconfig {
            Some(path) => format!("cannot use the kubeconfig {}", path.display()),
            None => "cannot find a cluster: give --kubeconfig or set KUBECONFIG".to_owned(),
        })?;
        Client::try_from(config).context("cannot set up the Kubernetes client")
    }
}

impl Connection {
    /// What kubeconfigs say, all together.
    fn kubeconfig(&self) -> Result<Kubeconfig> {
        match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot use the kubeconfig {}", path.display())),
            None => Kubeconfig::read()
                .context("cannot find a cluster: give --kubeconfig or set KUBECONFIG"),
        }
    }

    /// As whom the kubeconfig asks.
    pub(crate) fn user(&self) -> Result<AuthInfo> {
        let kubeconfig = self.kubeconfig()?;
        let name = self
            .context
            .as_ref()
            .or(kubeconfig.current_context.as_ref());
        let name = name.context("the kubeconfig has no current context: give --context")?;
        let context = kubeconfig.contexts.iter().find(|one| one.name == *name);
        let context = context.and_then(|one| one.context.as_ref());
        let context = context.with_context(|| format!("the kubeconfig has no context {name:?}"))?;
        let user = context.user.as_ref();
        let mut users = kubeconfig.auth_infos.iter();
        let user = users.find(|one| Some(&one.name) == user);
        Ok(user
            .and_then(|one| one.auth_info.clone())
            .unwrap_or_default())
    }

    /// The same cluster for kubectl.
    pub(crate) fn flags(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig.as_ref();
        let kubeconfig = kubeconfig.map(|path| format!("--kubeconfig={}", path.display()));
        let context = self
            .context
            .as_ref()
            .map(|name| format!("--context={name}"));
        kubeconfig.into_iter().chain(context).collect()
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

/// What the API server said, without what a client adds for its own authors.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
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
