//! The budget sidecar of pods that ask for it: what prevents it, and the patch that adds it.
//!
//! Pure. A pod is refused if it has something of its own under our names, so no pod silently gets something else
//! instead of the sidecar. A container that we wrote with other settings, as in a copy of an old pod, is replaced.

use gpushare_core::names;
use gpushare_core::request::Role;
use gpushare_kube::admission::manifest::{Container, ContainerEntry, Manifest, Mount};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::patch::Patch;
use gpushare_sidecar::{DIRECTORY, TOKEN_DIRECTORY, TOKEN_FILE, environment};

/// The name of the container.
const CONTAINER: &str = "gpushare-budget";
/// The volume through which the application reads.
const BUDGET: &str = "gpushare-budget";
/// The volume with the sidecar's token.
const ACCESS: &str = "gpushare-budget-access";
/// The shortest lifetime that the API server allows; the kubelet renews the token.
const TOKEN_SECONDS: i64 = 600;
/// An unprivileged user.
const USER: i64 = 65_532;

/// What the administrator has configured for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    pub image: String,
    /// The timekeeper's URL.
    pub timekeeper: String,
    /// The CA certificates (PEM) by which sidecars trust the timekeeper.
    pub authorities: String,
    /// Both requests and limits: the pod's QoS class stays, and quotas can count it.
    pub cpu: String,
    pub memory: String,
}

/// The result of a pod's wish for a sidecar.
#[derive(Debug)]
pub(super) enum Wish<'a> {
    None,
    /// No image is configured for it.
    Unserved,
    Granted(&'a Sidecar),
    Refused(Vec<String>),
}

/// What the pod has under the container's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Present {
    Nothing,
    Ours,
    /// It looks like ours, but is not what we would write now.
    Outdated {
        index: u32,
    },
    Theirs,
}

impl<'a> Wish<'a> {
    pub(super) fn of(settled: Option<&'a Sidecar>, pod: &Manifest) -> Self {
        let wish = pod.metadata.annotations.get(names::BUDGET_SIDECAR);
        match (wish.map(String::as_str), settled) {
            (None | Some("false"), _) => Self::None,
            (Some("true"), None) => Self::Unserved,
            (Some("true"), Some(sidecar)) => {
                let problems = sidecar.problems(pod);
                if problems.is_empty() {
                    Self::Granted(sidecar)
                } else {
                    Self::Refused(problems)
                }
            }
            (Some(other), _) => Self::Refused(vec![format!(
                "annotation {}: {other:?} is neither \"true\" nor \"false\"",
                names::BUDGET_SIDECAR
            )]),
        }
    }

    pub(super) fn problems(&self) -> &[String] {
        match self {
            Self::Refused(problems) => problems,
            _ => &[],
        }
    }

    /// What the pod's owner should know although it is no reason to refuse the pod.
    pub(super) fn warnings(&self, pod: &Manifest) -> Vec<String> {
        match self {
            Self::None | Self::Refused(_) => Vec::new(),
            Self::Unserved => vec![format!(
                "gpushare: no budget sidecar is added: the administrator has given no image for it (--sidecar-image \
                 of the webhook); remove the annotation {} or ask for one",
                names::BUDGET_SIDECAR
            )],
            Self::Granted(_) => others(pod)
                .filter(|entry| has_mount_of_its_own(entry.container))
                .map(|entry| {
                    let name = &entry.container.name;
                    format!(
                        "gpushare: container {name:?} has a mount of its own at {DIRECTORY}, so it does not see the \
                         budget there"
                    )
                })
                .collect(),
        }
    }

    /// Must come last in a patch, because it moves the init containers.
    pub(super) fn write(&self, pod: &Manifest, patch: &mut Patch) {
        if let Self::Granted(sidecar) = self {
            sidecar.write(pod, patch);
        }
    }
}

impl Sidecar {
    fn problems(&self, pod: &Manifest) -> Vec<String> {
        let mut problems = Vec::new();
        if self.present(pod) == Present::Theirs {
            problems.push(format!(
                "container {CONTAINER:?}: the budget sidecar has this name; rename yours, or remove the annotation {}",
                names::BUDGET_SIDECAR
            ));
        }
        for wanted in volumes() {
            let named = |volume: &&Value| volume.get("name") == wanted.get("name");
            let mut present = pod.spec.volumes.iter().flatten().filter(named);
            if let Some(theirs) = present.find(|volume| **volume != wanted) {
                problems.push(format!(
                    "volume {}: the budget sidecar has a volume of this name; rename yours",
                    theirs.get("name").unwrap_or(&Value::Null)
                ));
            }
        }
        for entry in others(pod) {
            let name = &entry.container.name;
            for mount in entry.container.volume_mounts.iter().flatten() {
                if mount.name == ACCESS {
                    problems.push(format!(
                        "container {name:?}: volume {ACCESS:?} is the budget sidecar's own; remove its mount"
                    ));
                } else if mount.name == BUDGET && !mount.read_only {
                    problems.push(format!(
                        "container {name:?}: volume {BUDGET:?} is written by the budget sidecar alone; mount it with \
                         readOnly: true"
                    ));
                }
            }
        }
        problems
    }

    fn write(&self, pod: &Manifest, patch: &mut Patch) {
        let mut any = pod.spec.volumes.is_some();
        for wanted in volumes() {
            if !pod
                .spec
                .volumes
                .iter()
                .flatten()
                .any(|have| *have == wanted)
            {
                patch.append(["spec", "volumes"], any, wanted);
                any = true;
            }
        }
        for entry in others(pod).filter(|entry| !sees_directory(entry.container)) {
            let mount = json!({"name": BUDGET, "mountPath": DIRECTORY, "readOnly": true});
            let index = entry.index.to_string();
            let mounts = ["spec", entry.list(), &index, "volumeMounts"];
            patch.append(mounts, entry.container.volume_mounts.is_some(), mount);
        }
        let list = ["spec", "initContainers"];
        match self.present(pod) {
            // The sidecar comes first, so that init containers can read their budget too.
            Present::Nothing if pod.spec.init_containers.is_empty() => {
                patch.add(list, json!([self.container()]));
            }
            Present::Nothing => patch.add(list.into_iter().chain(["0"]), self.container()),
            Present::Outdated { index } => {
                let index = index.to_string();
                patch.remove(list.into_iter().chain([index.as_str()]));
                patch.add(list.into_iter().chain([index.as_str()]), self.container());
            }
            Present::Ours | Present::Theirs => {}
        }
    }

    fn present(&self, pod: &Manifest) -> Present {
        let mut named = pod
            .containers()
            .filter(|entry| entry.container.name == CONTAINER);
        match (named.next(), named.next()) {
            (None, _) => Present::Nothing,
            (Some(entry), None) if looks_like_ours(entry) => {
                if self.is_as_written(entry.container) {
                    Present::Ours
                } else {
                    let index = entry.index;
                    Present::Outdated { index }
                }
            }
            _ => Present::Theirs,
        }
    }

    /// Image and resources are not compared: other webhooks may redirect the image to another registry or add
    /// to the resources after us, and we must not undo that when we are called again.
    fn is_as_written(&self, container: &Container) -> bool {
        let mounts = container.volume_mounts.as_deref().unwrap_or_default();
        is(container.env.as_deref(), &self.env())
            && is(container.security_context.as_deref(), &security_context())
            && mounts_of_ours().iter().all(|mount| mounts.contains(mount))
    }

    /// Writes out everything that the API server would fill in, so that the container is the same when we see it again.
    fn container(&self) -> Value {
        let resources = json!({"cpu": self.cpu, "memory": self.memory});
        let mounts: Vec<Value> = mounts_of_ours().iter().map(mount).collect();
        json!({
            "name": CONTAINER,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "args": arguments(),
            "restartPolicy": "Always",
            "env": self.env(),
            "resources": {"limits": resources, "requests": resources},
            "securityContext": security_context(),
            "volumeMounts": mounts,
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        })
    }

    fn env(&self) -> Value {
        let field = |path: &str| json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}});
        json!([
            {"name": environment::TIMEKEEPER, "value": self.timekeeper},
            {"name": environment::AUTHORITIES, "value": self.authorities},
            {"name": environment::NAMESPACE, "valueFrom": field("metadata.namespace")},
            {"name": environment::POD, "valueFrom": field("metadata.name")},
        ])
    }
}

/// Containers that can read the budget. Ephemeral ones are added when the pod already exists.
fn others(pod: &Manifest) -> impl Iterator<Item = ContainerEntry<'_>> {
    pod.containers()
        .filter(|entry| entry.container.name != CONTAINER && entry.role != Role::Ephemeral)
}

fn looks_like_ours(entry: ContainerEntry<'_>) -> bool {
    let Container { command, args, .. } = entry.container;
    entry.role == Role::Sidecar && command.is_none() && is(args.as_deref(), &arguments())
}

fn at_directory(container: &Container) -> impl Iterator<Item = &Mount> {
    let mounts = container.volume_mounts.iter().flatten();
    mounts.filter(|mount| mount.mount_path.trim_end_matches('/') == DIRECTORY)
}

fn sees_directory(container: &Container) -> bool {
    at_directory(container).next().is_some()
}

fn has_mount_of_its_own(container: &Container) -> bool {
    at_directory(container).any(|mount| mount.name != BUDGET)
}

fn is(written: Option<&RawValue>, wanted: &Value) -> bool {
    let written = written.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    written.as_ref() == Some(wanted)
}

fn arguments() -> Value {
    json!(["sidecar"])
}

fn mounts_of_ours() -> [Mount; 2] {
    let mount = |name: &str, path: &str, read_only| Mount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only,
    };
    [
        mount(BUDGET, DIRECTORY, false),
        // The usual place of a service account's token, so that the container gets no token for the API server there.
        mount(ACCESS, TOKEN_DIRECTORY, true),
    ]
}

fn mount(mount: &Mount) -> Value {
    let mut value = json!({"name": mount.name, "mountPath": mount.mount_path});
    if mount.read_only
        && let Some(fields) = value.as_object_mut()
    {
        fields.insert("readOnly".to_owned(), json!(true));
    }
    value
}

/// What the restricted Pod Security Standard requires, and a read-only root file system.
fn security_context() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "runAsUser": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn volumes() -> [Value; 2] {
    let token = json!({"serviceAccountToken": {
        "audience": names::TIMEKEEPER_AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": TOKEN_FILE,
    }});
    [
        json!({"name": BUDGET, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
        json!({"name": ACCESS, "projected": {"sources": [token], "defaultMode": 0o644}}),
    ]
}

#[cfg(test)]
mod tests;
