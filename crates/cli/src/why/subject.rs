//! What the question is about: a pod by name, a workload by type and name, or a manifest.

use std::path::Path;

use anyhow::{Context, Result, bail};
use gpushare_kube::manifest::Manifest;
use k8s_openapi::api::core::v1 as core;
use kube::Client;
use kube::api::{Api, GetParams, ListParams, Request};
use serde_json::{Value, json};

use super::change::Target;
use crate::from_cluster::manifest_of;

/// An existing or proposed pod, and the object in which to change its spec.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) exists: bool,
    /// The pod, with its namespace and name.
    pub(super) pod: Value,
    /// The workload that creates such pods.
    pub(super) owner: Option<Owner>,
    /// How many pods of the workload have a node, if the question is about a workload.
    pub(super) placed: usize,
}

impl Owner {
    /// How many pods it should have.
    pub(super) fn replicas(&self) -> usize {
        let replicas = self.manifest.object.pointer("/spec/replicas");
        let replicas = replicas.and_then(Value::as_u64).unwrap_or(1);
        usize::try_from(replicas).unwrap_or(usize::MAX)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) target: Target,
    pub(super) manifest: Manifest,
}

/// A kind of workload.
struct Kind {
    /// The `kind` in objects.
    written: &'static str,
    short: &'static str,
    path: &'static str,
}

const APPS: &str = "/apis/apps/v1";
const BATCH: &str = "/apis/batch/v1";
const KINDS: [Kind; 6] = [
    kind("Deployment", "deploy", APPS),
    kind("StatefulSet", "sts", APPS),
    kind("DaemonSet", "ds", APPS),
    kind("ReplicaSet", "rs", APPS),
    kind("Job", "job", BATCH),
    kind("CronJob", "cj", BATCH),
];

const fn kind(written: &'static str, short: &'static str, path: &'static str) -> Kind {
    Kind {
        written,
        short,
        path,
    }
}

impl Kind {
    fn singular(&self) -> String {
        self.written.to_lowercase()
    }

    fn plural(&self) -> String {
        format!("{}s", self.singular())
    }

    /// Whether kubectl takes the word for this kind.
    fn is_named(&self, word: &str) -> bool {
        word == self.singular() || word == self.plural() || word == self.short
    }
}

impl Subject {
    /// The pod of a manifest; `-` reads standard input.
    pub(super) fn of_file(file: &Path, namespace: Option<&str>, default: &str) -> Result<Self> {
        let manifest = manifest_of(file)?;
        Ok(Self::of_manifest(manifest, namespace, default))
    }

    fn of_manifest(manifest: Manifest, namespace: Option<&str>, default: &str) -> Self {
        let text = |path: &str| manifest.object.pointer(path).and_then(Value::as_str);
        let namespace = namespace
            .or_else(|| text("/metadata/namespace"))
            .unwrap_or(default);
        let target = Target::of(
            text("/kind").unwrap_or("Pod"),
            Some(namespace),
            text("/metadata/name").unwrap_or("(without a name)"),
        );
        let pod = named(manifest.pod().clone(), &target);
        Self {
            exists: false,
            pod,
            owner: (!manifest.path.is_empty()).then_some(Owner { target, manifest }),
            placed: 0,
        }
    }

    /// A pod by its name, or `TYPE/NAME` of a workload.
    pub(super) async fn by_name(client: &Client, namespace: &str, name: &str) -> Result<Self> {
        match name.split_once('/') {
            Some(("pod" | "pods" | "po", name)) => Self::by_pod(client, namespace, name).await,
            Some((kind, name)) => Self::by_workload(client, namespace, kind, name).await,
            None => Self::by_pod(client, namespace, name).await,
        }
    }

    async fn by_pod(client: &Client, namespace: &str, name: &str) -> Result<Self> {
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
        let Some(pod) = get(client, request, name).await? else {
            bail!("{}", unknown(client, namespace, name).await);
        };
        let owner = owner_of(client, namespace, &pod).await;
        Ok(Self {
            exists: true,
            pod,
            owner,
            placed: 0,
        })
    }

    async fn by_workload(client: &Client, namespace: &str, kind: &str, name: &str) -> Result<Self> {
        let Some(known) = KINDS.iter().find(|known| known.is_named(kind)) else {
            let names: Vec<String> = KINDS.iter().map(Kind::singular).collect();
            bail!(
                "{kind:?} is no type with pods: use pod, {}",
                names.join(", ")
            );
        };
        let Some(owner) = workload(client, namespace, known, name).await? else {
            bail!(
                "there is no {kind} {name} in the namespace {namespace}; check its name, or give -n"
            );
        };
        let selector = owner.manifest.object.pointer("/spec/selector/matchLabels");
        let labels: Vec<String> = selector
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
            .collect();
        let (waiting, placed) = if labels.is_empty() {
            (None, 0)
        } else {
            pods_of(client, namespace, &labels.join(",")).await?
        };
        Ok(Self {
            exists: waiting.is_some(),
            pod: waiting.unwrap_or_else(|| named(owner.manifest.pod().clone(), &owner.target)),
            owner: Some(owner),
            placed,
        })
    }
}

/// A template turned into the pod that it would become.
pub(super) fn named(mut pod: Value, target: &Target) -> Value {
    if let Some(metadata) = pod.as_object_mut().and_then(|pod| {
        pod.entry("metadata")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    }) {
        metadata.insert("namespace".to_owned(), json!(target.namespace));
        metadata.entry("name").or_insert_with(|| json!(target.name));
    }
    pod
}

/// A waiting pod with these labels, and how many such pods have a node.
async fn pods_of(client: &Client, namespace: &str, labels: &str) -> Result<(Option<Value>, usize)> {
    let pods: Api<core::Pod> = Api::namespaced(client.clone(), namespace);
    let list = pods.list(&ListParams::default().labels(labels)).await;
    let list = list.with_context(|| format!("cannot list the pods of {namespace}"))?;
    let placed = |pod: &core::Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
    };
    let waits = |pod: &&core::Pod| !placed(pod) && pod.metadata.deletion_timestamp.is_none();
    let first = list.items.iter().find(waits);
    let first = first.map(|pod| serde_json::to_value(pod).context("the pod cannot be read"));
    let count = list.items.iter().filter(|pod| placed(pod)).count();
    Ok((first.transpose()?, count))
}

/// The topmost workload that owns the pod, in which changes belong.
async fn owner_of(client: &Client, namespace: &str, pod: &Value) -> Option<Owner> {
    let mut found: Option<Owner> = None;
    let mut object = pod.clone();
    // Two levels: a pod belongs to a job, for example, and the job to a cron job.
    for _ in 0..2 {
        let owners = object
            .pointer("/metadata/ownerReferences")?
            .as_array()?
            .clone();
        let controller = owners
            .iter()
            .find(|owner| owner.get("controller").is_some_and(|is| is == true));
        let Some(controller) = controller else { break };
        let text = |field: &str| controller.get(field).and_then(Value::as_str);
        let (kind, name) = (text("kind")?, text("name")?);
        let known = KINDS.iter().find(|known| known.written == kind)?;
        let Ok(Some(owner)) = workload(client, namespace, known, name).await else {
            break;
        };
        object = owner.manifest.object.clone();
        found = Some(owner);
        if object.pointer("/metadata/ownerReferences").is_none() {
            break;
        }
    }
    found
}

async fn workload(
    client: &Client,
    namespace: &str,
    kind: &Kind,
    name: &str,
) -> Result<Option<Owner>> {
    let request = Request::new(format!(
        "{}/namespaces/{namespace}/{}",
        kind.path,
        kind.plural()
    ));
    let object = get(client, request, name).await?;
    Ok(object.and_then(Manifest::of).map(|manifest| Owner {
        target: Target::of(kind.written, Some(namespace), name),
        manifest,
    }))
}

async fn get(client: &Client, request: Request, name: &str) -> Result<Option<Value>> {
    let url = request.url_path.clone();
    let request = request
        .get(name, &GetParams::default())
        .with_context(|| format!("{name:?} is no name"))?;
    match client.request(request).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error).with_context(|| {
            format!("cannot read {url}/{name}; check the kubeconfig and that you may read it")
        }),
    }
}

/// The message for a pod that was not found: its creation may have been refused, or it is in another namespace.
async fn unknown(client: &Client, namespace: &str, name: &str) -> String {
    let missing = format!("there is no pod {name} in the namespace {namespace}");
    if let Some(refusal) = super::read::refused_creation(client, namespace, name).await {
        return format!("{missing}; it was not created: {refusal}");
    }
    let pods: Api<core::Pod> = Api::all(client.clone());
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let elsewhere = pods
        .list(&params)
        .await
        .map(|list| list.items)
        .unwrap_or_default();
    let namespaces = elsewhere
        .iter()
        .filter_map(|pod| pod.metadata.namespace.as_deref());
    match namespaces.collect::<Vec<_>>().as_slice() {
        [] => format!(
            "{missing}; check its name, or give -n; a pod that does not exist yet is asked about with -f"
        ),
        others => format!("{missing}, but in {}: give -n", others.join(", ")),
    }
}
