//! What a kubelet knows about a pod's containers: their names, the stage of each, and how long it will run.

use std::collections::BTreeMap;
use std::time::Duration;

use gpushare_core::Quantity;
use gpushare_kubelet_api::stand_in::ContainerRequest;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;

/// How long a container of a pod that ends runs by default, and an init container at most.
const USUAL: Duration = Duration::from_secs(30);
/// How long a container takes to stop by default, and an init container to run.
const QUICK: Duration = Duration::from_secs(1);

/// Pod annotations with which a user says how the containers behave in the sandbox.
mod annotation {
    pub(super) const RUNS_FOR: &str = "sandbox.gpushare.io/runs-for";
    pub(super) const STOPS_AFTER: &str = "sandbox.gpushare.io/stops-after";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Init,
    Sidecar,
    App,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting {
        reason: &'static str,
        message: Option<String>,
    },
    Running {
        since: Timestamp,
    },
    Ended {
        since: Timestamp,
        until: Timestamp,
        code: i32,
    },
}

#[derive(Clone, Debug)]
pub(super) struct TrackedContainer {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) role: Role,
    pub(super) stage: Stage,
    pub(super) id: String,
}

/// The containers of a pod in the order in which they start.
pub(super) fn tracked(pod: &Pod) -> Vec<TrackedContainer> {
    let uid = pod.uid().unwrap_or_default();
    let track = |(role, container): (Role, &Container)| TrackedContainer {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        role,
        stage: Stage::Waiting {
            reason: if role == Role::App && has_init(pod) {
                "PodInitializing"
            } else {
                "ContainerCreating"
            },
            message: None,
        },
        id: format!("simulated://{uid}/{}", container.name),
    };
    in_order(pod).map(track).collect()
}

fn has_init(pod: &Pod) -> bool {
    in_order(pod).any(|(role, _)| role == Role::Init)
}

fn in_order(pod: &Pod) -> impl Iterator<Item = (Role, &Container)> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref());
    let init = init.into_iter().flatten().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        (if sidecar { Role::Sidecar } else { Role::Init }, container)
    });
    let apps = spec.into_iter().flat_map(|spec| &spec.containers);
    init.chain(apps.map(|container| (Role::App, container)))
}

/// The devices that each container requests from the node's plugins.
pub(super) fn requests(pod: &Pod) -> Vec<ContainerRequest> {
    let ask = |(role, container): (Role, &Container)| {
        let resources = container.resources.as_ref();
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let whole = |text: &str| Quantity::parse(text).ok()?.count().ok();
        let limits: BTreeMap<String, usize> = limits
            .into_iter()
            .flatten()
            .filter_map(|(name, amount)| {
                let count = usize::try_from(whole(&amount.0)?).ok()?;
                (count > 0).then(|| (name.clone(), count))
            })
            .collect();
        ContainerRequest {
            container: container.name.clone(),
            limits,
            passing: role == Role::Init,
        }
    };
    in_order(pod).map(ask).collect()
}

/// How long a container runs by itself; `None` if it runs until it is stopped.
pub(super) fn lifetime(pod: &Pod, container: &str, role: Role) -> Option<Duration> {
    let (_, found) = in_order(pod).find(|(_, other)| other.name == container)?;
    if role == Role::Init {
        // Init containers are quick, however long their command would sleep.
        return Some(sleeping(found).unwrap_or(QUICK).min(USUAL));
    }
    let restarts = pod.spec.as_ref()?.restart_policy.as_deref() == Some("Always");
    if restarts || role == Role::Sidecar {
        return None;
    }
    let told = annotated(pod, annotation::RUNS_FOR);
    Some(told.or_else(|| sleeping(found)).unwrap_or(USUAL))
}

/// How long containers take to end when they are asked to.
pub(super) fn farewell(pod: &Pod) -> Duration {
    annotated(pod, annotation::STOPS_AFTER).unwrap_or(QUICK)
}

fn annotated(pod: &Pod, name: &str) -> Option<Duration> {
    let text = pod.annotations().get(name)?;
    let duration: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(duration).ok()
}

/// The duration of a `sleep` in the command, even inside a shell script.
fn sleeping(container: &Container) -> Option<Duration> {
    let command = container.command.iter().flatten();
    let words: Vec<&str> = command
        .chain(container.args.iter().flatten())
        .flat_map(|part| part.split([' ', ';', '&', '\n']))
        .filter(|word| !word.is_empty())
        .collect();
    let after = words.iter().position(|word| word.ends_with("sleep"))? + 1;
    let seconds: u64 = words.get(after)?.trim_end_matches('s').parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value) -> Pod {
        let annotations = spec.get("annotations").cloned().unwrap_or(json!({}));
        serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": spec}))
            .unwrap()
    }

    fn seconds(pod: &Pod) -> Option<u64> {
        lifetime(pod, "c", Role::App).map(|duration| duration.as_secs())
    }

    #[test]
    fn a_container_runs_for_as_long_as_its_manifest_lets_one_guess() {
        let with = |policy: &str, command: Value| {
            pod(
                &json!({"restartPolicy": policy, "containers": [{"name": "c", "command": command}]}),
            )
        };
        assert_eq!(seconds(&with("Always", json!(["sleep", "5"]))), None);
        assert_eq!(seconds(&with("Never", json!(["sleep", "5"]))), Some(5));
        let script = json!(["sh", "-c", "nvidia-smi; sleep 12; exit 0"]);
        assert_eq!(seconds(&with("OnFailure", script)), Some(12));
        assert_eq!(seconds(&with("Never", json!(["train"]))), Some(30));
        assert_eq!(
            seconds(&with("Never", json!(["sleep", "infinity"]))),
            Some(30)
        );
    }

    #[test]
    fn an_annotation_says_how_long_pods_run_and_take_to_stop() {
        let pod = pod(&json!({
            "restartPolicy": "Never",
            "containers": [{"name": "c"}],
            "annotations": {
                "sandbox.gpushare.io/runs-for": "2m",
                "sandbox.gpushare.io/stops-after": "7s",
            },
        }));
        assert_eq!(seconds(&pod), Some(120));
        assert_eq!(farewell(&pod), Duration::from_secs(7));
    }

    #[test]
    fn containers_ask_for_whole_devices_in_the_order_in_which_they_start() {
        let limits = json!({"limits": {"gpushare.io/gpu": "2", "cpu": "500m"}});
        let pod = pod(&json!({
            "initContainers": [{"name": "prepare"}, {"name": "proxy", "restartPolicy": "Always"}],
            "containers": [{"name": "c", "resources": limits}],
        }));
        let requests = requests(&pod);
        let names: Vec<(&str, bool)> = requests
            .iter()
            .map(|request| (request.container.as_str(), request.passing))
            .collect();
        assert_eq!(names, [("prepare", true), ("proxy", false), ("c", false)]);
        assert_eq!(
            requests[2].limits,
            BTreeMap::from([("gpushare.io/gpu".to_owned(), 2)])
        );
    }
}
