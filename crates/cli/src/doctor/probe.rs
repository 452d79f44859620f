//! Checks whether a container that asks for no card gets one anyway. The only proof is a container that tries.
//!
//! The pod names its node, so that no scheduler is needed. It reports what it sees in its termination message, so that
//! the kubelet need not be reachable.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use gpushare_core::names::variable::VISIBLE_DEVICES;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::check::{Check, Lookup, fail, get, ok, warn};
use super::nodes::some;

const UNBOOKED: &str = "unbooked cards";
/// How many probes run at once.
const AT_ONCE: usize = 16;
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// The uid of `nobody`, so that the pod is allowed where pods are restricted.
const NOBODY: i64 = 65_534;
/// A container that could look and report starts its message with this word. An empty message proves nothing.
const LOOKED: &str = "looked";
/// Reports [`LOOKED`], which is passed as `$0`, and the device files of NVIDIA's cards and of cards that WSL shares. The
/// image needs only a shell.
const LOOK: &str = r#"{
echo "$0"
for file in /dev/nvidia[0-9]* /dev/dxg; do
    if [ -e "$file" ]; then echo "$file"; fi
done
} > /dev/termination-log
exit 0"#;

#[derive(Clone)]
pub(super) struct Probe {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) image: String,
    pub(super) patience: Duration,
}

/// One probe: a node, and a RuntimeClass if it does not use the node's default runtime.
#[derive(Clone, Debug)]
struct Place {
    node: String,
    class: Option<String>,
}

impl Place {
    fn named(&self) -> String {
        match &self.class {
            None => self.node.clone(),
            Some(class) => format!("{} with runtimeClassName {class}", self.node),
        }
    }
}

impl Probe {
    pub(super) async fn look(&self, nodes: &[String]) -> Check {
        let (mut open, mut untold) = (Vec::new(), Vec::new());
        let mut runtimes = vec![None];
        match self.classes().await {
            Ok(classes) => runtimes.extend(classes.into_iter().map(Some)),
            Err(error) => untold.push(format!("RuntimeClasses, which cannot be listed ({error})")),
        }
        let places: Vec<Place> = nodes
            .iter()
            .flat_map(|node| {
                runtimes.iter().map(|class| Place {
                    node: node.clone(),
                    class: class.clone(),
                })
            })
            .collect();
        for some_places in places.chunks(AT_ONCE) {
            let mut tries = JoinSet::new();
            for place in some_places.iter().cloned() {
                let probe = self.clone();
                tries.spawn(async move { (probe.try_at(&place).await, place) });
            }
            while let Some(tried) = tries.join_next().await {
                match tried {
                    Ok((Ok(devices), _)) if devices.is_empty() => {}
                    Ok((Ok(devices), place)) => {
                        open.push(format!("{} ({})", place.named(), devices.join(" ")));
                    }
                    Ok((Err(error), place)) => {
                        untold.push(format!("{} ({error:#})", place.named()));
                    }
                    Err(error) => untold.push(error.to_string()),
                }
            }
        }
        open.sort();
        untold.sort();
        judged(nodes.len(), &open, &untold)
    }

    /// RuntimeClasses with which any pod can choose the nvidia runtime.
    async fn classes(&self) -> Result<Vec<String>, String> {
        let list = match get(&self.client, "/apis/node.k8s.io/v1/runtimeclasses").await {
            Lookup::Found(list) => list,
            Lookup::Missing => return Ok(Vec::new()),
            Lookup::Unknown(error) => return Err(error),
        };
        let items = list.get("items").and_then(Value::as_array);
        let text = |item: &Value, path: &str| Some(item.pointer(path)?.as_str()?.to_owned());
        Ok(items
            .into_iter()
            .flatten()
            .filter(|item| text(item, "/handler").is_some_and(|name| name.contains("nvidia")))
            .filter_map(|item| text(item, "/metadata/name"))
            .collect())
    }

    /// The cards that the container saw.
    async fn try_at(&self, place: &Place) -> Result<Vec<String>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = pods
            .create(&PostParams::default(), &self.pod(place)?)
            .await
            .context("the pod cannot be created")?;
        let name = pod.name_any();
        let seen = self.wait(&pods, &name).await;
        let gone = pods
            .delete(&name, &DeleteParams::default().grace_period(0))
            .await;
        let seen = seen?;
        gone.with_context(|| format!("delete the pod {name} in {}", self.namespace))?;
        Ok(seen)
    }

    async fn wait(&self, pods: &Api<Pod>, name: &str) -> Result<Vec<String>> {
        let end = Instant::now() + self.patience;
        loop {
            let pod = pods.get(name).await.context("the pod cannot be read")?;
            let status = pod.status.unwrap_or_default();
            let containers = status.container_statuses.unwrap_or_default();
            let container = containers.into_iter().next();
            let state = container.and_then(|one| one.state).unwrap_or_default();
            if let Some(ended) = state.terminated {
                if ended.exit_code != 0 {
                    let said = ended.message.or(ended.reason).unwrap_or_default();
                    bail!("the image cannot run a shell: {said}");
                }
                let message = ended.message.unwrap_or_default();
                return seen(&message).with_context(|| {
                    format!("the container did not say that it looked: {message:?}")
                });
            }
            if status.phase.as_deref() == Some("Failed") {
                bail!(
                    "the pod failed: {}",
                    status.message.or(status.reason).unwrap_or_default()
                );
            }
            if Instant::now() >= end {
                let waiting = state.waiting.and_then(|why| why.message.or(why.reason));
                bail!(
                    "the pod has not ended in time: {}",
                    waiting.as_deref().unwrap_or("no kubelet has started it")
                );
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    fn pod(&self, place: &Place) -> Result<Pod> {
        let pod = json!({
            "metadata": {
                "generateName": "gpushare-probe-",
                "labels": {"app.kubernetes.io/name": "gpushare-probe"},
            },
            "spec": {
                "nodeName": place.node,
                "runtimeClassName": place.class,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "activeDeadlineSeconds": self.patience.as_secs().max(1),
                "automountServiceAccountToken": false,
                "tolerations": [{"operator": "Exists"}],
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": NOBODY,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": "probe", "image": self.image, "command": ["sh", "-c", LOOK, LOOKED],
                    "env": [{"name": VISIBLE_DEVICES, "value": "all"}],
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                    },
                }],
            },
        });
        serde_json::from_value(pod).context("the probe is no pod")
    }
}

/// The cards in a container's message; `None` if the container could not look.
fn seen(message: &str) -> Option<Vec<String>> {
    let mut words = message.split_whitespace();
    let looked = words.next() == Some(LOOKED);
    looked.then(|| words.map(str::to_owned).collect())
}

fn judged(nodes: usize, open: &[String], untold: &[String]) -> Check {
    if !open.is_empty() {
        let message = format!(
            "a container that asks for no card sees cards on {}",
            some(open)
        );
        let fix =
            "close it there as docs/node-agent.md says under \"Containers that ask for no card\"";
        return fail(UNBOOKED, message, fix);
    }
    if !untold.is_empty() || nodes == 0 {
        let message = match nodes {
            0 => "no node has cards to try it on".to_owned(),
            _ => format!("not known for {}", some(untold)),
        };
        let fix = "give --probe an image with a shell that every node can pull, and ask as a user who may create pods there and list RuntimeClasses";
        return warn(UNBOOKED, message, fix);
    }
    let message = format!("no card is seen without asking, tried on {nodes} nodes");
    ok(UNBOOKED, message)
}
