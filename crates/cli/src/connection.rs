//! Connects to a cluster: reads the kubeconfig, and whole lists of objects. Never writes.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use gpushare_kube::{proxy, slim};
use k8s_openapi::jiff::SignedDuration;
use kube::api::{ListParams, Request};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Objects in one page of a list.
const PAGE: u32 = 500;

/// Which cluster, and as whom: kubectl's flags of the same names.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The cluster")]
pub(crate) struct Connection {
    /// Path of the kubeconfig; by default KUBECONFIG or the usual path
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The cluster of the kubeconfig to use instead of the context's
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The user of the kubeconfig to use instead of the context's
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Impersonate this user
    #[arg(long = "as", value_name = "USER")]
    impersonate: Option<String>,
    /// Impersonate this group as well; can be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "impersonate")]
    groups: Vec<String>,
    /// How long to wait for a response of the API server, such as 5s or 1m; 0 waits without limit
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = timeout)]
    request_timeout: Duration,
}

/// A number without a unit means seconds, as in kubectl.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let parsed: Option<SignedDuration> = text.parse().ok();
    let parsed = parsed.and_then(|time| Duration::try_from(time).ok());
    parsed.ok_or_else(|| "it must be a time such as 5s or 1m, or a number of seconds".to_owned())
}

/// A kind of object that can be listed in all namespaces.
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

/// Which objects of a kind to list.
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
    /// Whether any flag chooses a cluster or a user.
    pub(crate) fn is_given(&self) -> bool {
        !self.flags().is_empty()
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let kubeconfig = self.kubeconfig()?;
        if let Some(user) = &self.user {
            let mut users = kubeconfig.auth_infos.iter();
            if !users.any(|one| one.name == *user) {
                bail!("the kubeconfig has no user {user:?}; kubectl config get-users lists them");
            }
        }
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.with_context(|| self.unusable())?;
        if let Some(user) = &self.impersonate {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(self.groups.clone());
        }
        if !self.request_timeout.is_zero() {
            config.connect_timeout = Some(self.request_timeout);
            config.read_timeout = Some(self.request_timeout);
            config.reset_reader_on_write = true;
            // Retries would exceed the limit that the user has set.
            config.default_retry = false;
        }
        let config = proxy::none_to_loopback(config);
        Client::try_from(config).context("cannot set up the Kubernetes client")
    }

    /// The error for a kubeconfig that was read but cannot be used.
    fn unusable(&self) -> String {
        let named = self.context.is_some() || self.cluster.is_some();
        match &self.kubeconfig {
            _ if named => {
                "cannot find that cluster; kubectl config get-contexts and get-clusters list what can be named"
                    .to_owned()
            }
            Some(path) => format!("cannot use the kubeconfig {}", path.display()),
            None => "cannot find a cluster: give --kubeconfig or set KUBECONFIG".to_owned(),
        }
    }

    /// The given kubeconfig, or the default ones merged.
    fn kubeconfig(&self) -> Result<Kubeconfig> {
        match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot use the kubeconfig {}", path.display())),
            None => Kubeconfig::read()
                .context("cannot find a cluster: give --kubeconfig or set KUBECONFIG"),
        }
    }

    /// The user that the kubeconfig authenticates as.
    pub(crate) fn user(&self) -> Result<AuthInfo> {
        if self.impersonate.is_some() {
            bail!("--as is known to the API server alone: give --as-service-account here");
        }
        let kubeconfig = self.kubeconfig()?;
        let name = self
            .context
            .as_ref()
            .or(kubeconfig.current_context.as_ref());
        let name = name.context("the kubeconfig has no current context: give --context")?;
        let context = kubeconfig.contexts.iter().find(|one| one.name == *name);
        let context = context.and_then(|one| one.context.as_ref());
        let context = context.with_context(|| format!("the kubeconfig has no context {name:?}"))?;
        let user = self.user.as_ref().or(context.user.as_ref());
        let mut users = kubeconfig.auth_infos.iter();
        let user = users.find(|one| Some(&one.name) == user);
        Ok(user
            .and_then(|one| one.auth_info.clone())
            .unwrap_or_default())
    }

    /// The flags that make kubectl use the same cluster and user.
    pub(crate) fn flags(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig.as_ref();
        let kubeconfig = kubeconfig.map(|path| path.display().to_string());
        let given = [
            ("kubeconfig", kubeconfig.as_ref()),
            ("context", self.context.as_ref()),
            ("cluster", self.cluster.as_ref()),
            ("user", self.user.as_ref()),
            ("as", self.impersonate.as_ref()),
        ];
        let given = given
            .into_iter()
            .filter_map(|(name, value)| Some(format!("--{name}={}", value?)));
        let groups = self.groups.iter().map(|name| format!("--as-group={name}"));
        given.chain(groups).collect()
    }
}

/// Runs asynchronous work to its end.
pub(crate) fn wait_for<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?
        .block_on(work)
}

/// The API server's message, without what the client library adds for its developers.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.message.is_empty() => {
            format!("the server answers {}", status.code)
        }
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

/// Passes every pod of the cluster to `take`.
pub(crate) async fn each_pod(client: &Client, mut take: impl FnMut(&slim::Pod)) -> Result<()> {
    each(client, PODS, Only::Everything, |pod| {
        take(&pod);
        Ok(())
    })
    .await
}

/// Passes each object to `take`, page by page, so that a large cluster does not need much memory.
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
