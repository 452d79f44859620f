//! Starting, using and ending one embedded API server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::definition;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::http::{Edge, KindSchema, Review, Webhooks, serve};
use crate::logs::Logs;
use crate::registry::{Registry, Stamp, Target, UnknownFields, Write, decode};
use crate::request::Requests;
use crate::resource::Resource;
use crate::rules::Part;

/// Events kept per resource for watches that resume.
const HISTORY: usize = 10_000;
/// Bookmarks come this often on a quiet watch.
const BOOKMARKS: Duration = Duration::from_mins(1);

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}; choose a free loopback address")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot serve {name}: {reason}")]
    Define { name: String, reason: String },
    #[error("cannot create the {kind} {name} that every cluster has")]
    Furnish {
        kind: &'static str,
        name: String,
        source: Failure,
    },
    #[error("cannot create a client for {url}")]
    Client {
        url: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Settings of a server; the defaults suit tests.
#[derive(Debug, Clone)]
pub struct Builder {
    address: SocketAddr,
    token: Option<String>,
    definitions: Vec<CustomResourceDefinition>,
    reviews: Vec<Review>,
    history: usize,
    bookmarks: Duration,
    logs: Option<Arc<dyn Logs>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            token: None,
            definitions: Vec::new(),
            reviews: Vec::new(),
            history: HISTORY,
            bookmarks: BOOKMARKS,
            logs: None,
        }
    }
}

impl Builder {
    /// Where to listen; by default a free port of 127.0.0.1.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Refuse requests without this token, either as a bearer token or as the beginning of their path. By default
    /// tokens are ignored.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Serve the stored version of a custom resource. Its definition also gives the columns, and the schema that
    /// `kubectl explain` shows. Objects are not checked against the schema.
    #[must_use]
    pub fn crd(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Answer questions that are posted as objects to `/apis/{group}/v1/{plural}`, such as TokenReviews. `answer` maps
    /// the object to its status. Nothing is stored.
    #[must_use]
    pub fn review(
        mut self,
        group: &'static str,
        plural: &'static str,
        answer: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        let answer = Arc::new(answer);
        self.reviews.push(Review {
            group,
            plural,
            answer,
        });
        self
    }

    /// How many events of each resource can be resumed from.
    #[must_use]
    pub fn history(mut self, events: usize) -> Self {
        self.history = events;
        self
    }

    /// How often watches that asked for bookmarks get one.
    #[must_use]
    pub fn bookmarks(mut self, interval: Duration) -> Self {
        self.bookmarks = interval;
        self
    }

    /// Where the logs of containers are read.
    #[must_use]
    pub fn logs(mut self, logs: Arc<dyn Logs>) -> Self {
        self.logs = Some(logs);
        self
    }

    /// Starts serving on the current runtime.
    pub async fn start(self) -> Result<Server, StartError> {
        let address = self.address;
        let listen = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (resources, described) = define(&self.definitions)?;
        let registry = Arc::new(Registry::new(resources, self.history));
        furnish(&registry)?;
        let config = client_config(address, self.token.as_deref())?;
        let client = client(config.clone())?;
        let faults = Faults::new(Arc::clone(&registry));
        let requests = Requests::default();
        let edge = Arc::new(Edge {
            registry,
            faults: faults.clone(),
            requests: requests.clone(),
            reviews: self.reviews,
            described,
            token: self.token.clone(),
            bookmark_interval: self.bookmarks,
            logs: self.logs,
            webhooks: Webhooks::default(),
        });
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, edge, stop.clone()));
        Ok(Server {
            address,
            token: self.token,
            config,
            client,
            faults,
            requests,
            stop,
            task: Some(task),
        })
    }
}

/// A running API server. Dropping it ends it and everything it started.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    token: Option<String>,
    config: kube::Config,
    client: ClientHandle,
    faults: Faults,
    requests: Requests,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

/// `kube::Client` does not implement Debug.
struct ClientHandle(kube::Client);

impl std::fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Server {
    /// Starts an empty cluster on a free loopback port.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client of this server, in the namespace `default`.
    pub fn client(&self) -> kube::Client {
        self.client.0.clone()
    }

    /// The configuration for another client of this server.
    pub fn config(&self) -> kube::Config {
        self.config.clone()
    }

    /// A kubeconfig for kubectl and other programs.
    pub fn kubeconfig(&self) -> String {
        let server = match &self.token {
            Some(token) => format!("{}/{token}", self.url()),
            None => self.url(),
        };
        // JSON is valid YAML, and nothing else writes this kubeconfig.
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "embedded",
            "clusters": [{"name": "embedded", "cluster": {"server": server}}],
            "users": [{"name": "embedded", "user": {}}],
            "contexts": [{
                "name": "embedded",
                "context": {"cluster": "embedded", "user": "embedded"},
            }],
        })
        .to_string()
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Ends the server and waits until its last task has ended.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        // This task owns the tasks of all connections, so aborting it ends them even if it is never polled again.
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The resources of these definitions, and what `kubectl explain` shows of them.
fn define(
    definitions: &[CustomResourceDefinition],
) -> Result<(Vec<Resource>, Vec<KindSchema>), StartError> {
    let mut defined = (Vec::new(), Vec::new());
    for crd in definitions {
        let (resource, schema) =
            definition::resource(crd).map_err(|reason| StartError::Define {
                name: crd.metadata.name.clone().unwrap_or_default(),
                reason,
            })?;
        defined.1.push(KindSchema {
            group: resource.group,
            kind: resource.kind,
            schema,
        });
        defined.0.push(resource);
    }
    Ok(defined)
}

fn client_config(address: SocketAddr, token: Option<&str>) -> Result<kube::Config, StartError> {
    let url = format!("http://{address}");
    let uri = url.parse().map_err(|error: hyper::http::uri::InvalidUri| {
        let source = Box::new(error);
        StartError::Client { url, source }
    })?;
    let mut config = kube::Config::new(uri);
    config.auth_info.token = token.map(|token| token.to_owned().into());
    Ok(config)
}

fn client(config: kube::Config) -> Result<ClientHandle, StartError> {
    let url = config.cluster_url.to_string();
    let client = kube::Client::try_from(config).map_err(|error| StartError::Client {
        url,
        source: Box::new(error),
    })?;
    Ok(ClientHandle(client))
}

/// Creates the objects that every cluster has from the start.
fn furnish(registry: &Registry) -> Result<(), StartError> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        add(registry, "", "namespaces", "Namespace", name, json!({}))?;
    }
    for (name, value) in [
        ("system-cluster-critical", 2_000_000_000),
        ("system-node-critical", 2_000_001_000),
    ] {
        let group = "scheduling.k8s.io";
        add(
            registry,
            group,
            "priorityclasses",
            "PriorityClass",
            name,
            json!({"value": value}),
        )?;
    }
    Ok(())
}

fn add(
    registry: &Registry,
    group: &str,
    plural: &str,
    kind: &'static str,
    name: &str,
    mut object: Value,
) -> Result<(), StartError> {
    let failed = |source| StartError::Furnish {
        kind,
        name: name.to_owned(),
        source,
    };
    let served = registry.find(group, "v1", plural);
    let served = served.ok_or_else(|| failed(Failure::no_such_path()))?;
    if let Value::Object(map) = &mut object {
        map.insert("metadata".to_owned(), json!({ "name": name }));
    }
    let write = Write {
        stamp: Stamp {
            now: Timestamp::now(),
            uid: Uuid::new_v4(),
        },
        manager: "embedded".to_owned(),
        part: Part::Main,
        dry_run: false,
        unknown_fields: UnknownFields::Refuse,
        mutations: Vec::new(),
    };
    let decoded = decode(&served.resource, object, write.unknown_fields).map_err(failed)?;
    let target = Target {
        served,
        namespace: String::new(),
        name: String::new(),
    };
    registry
        .create(&target, decoded, &write)
        .map(drop)
        .map_err(failed)
}
