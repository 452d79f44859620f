//! Defaults and resets of pods, as done by the real server and its built-in admission.

use serde_json::{Value, json};

use crate::json::Path;

const CONTAINER_LISTS: [&str; 2] = ["containers", "initContainers"];

/// Defaults of a pod itself; a pod template gets only [`default_pod_spec`].
pub(super) fn default_pod(pod: &mut Value) {
    default_pod_spec(pod, "spec");
    pod.default_to("spec.enableServiceLinks", true);
    for list in CONTAINER_LISTS {
        for container in pod.list_mut(&format!("spec.{list}")) {
            default_requests(container);
        }
    }
}

/// Defaults of a pod spec at a path of the object.
pub(super) fn default_pod_spec(object: &mut Value, path: &str) {
    let field = |name: &str| format!("{path}.{name}");
    object.default_to(&field("dnsPolicy"), "ClusterFirst");
    object.default_to(&field("restartPolicy"), "Always");
    object.default_to(&field("securityContext"), json!({}));
    object.default_to(&field("terminationGracePeriodSeconds"), 30);
    object.default_to(&field("schedulerName"), "default-scheduler");
    let account = object.text(&field("serviceAccountName")).to_owned();
    if !account.is_empty() {
        object.put(&field("serviceAccount"), account);
    }
    for list in CONTAINER_LISTS {
        for container in object.list_mut(&field(list)) {
            default_container(container);
        }
    }
}

fn default_container(container: &mut Value) {
    let pull = if tag(container.text("image")) == "latest" {
        "Always"
    } else {
        "IfNotPresent"
    };
    container.default_to("imagePullPolicy", pull);
    container.default_to("terminationMessagePath", "/dev/termination-log");
    container.default_to("terminationMessagePolicy", "File");
    container.default_to("resources", json!({}));
    for port in container.list_mut("ports") {
        port.default_to("protocol", "TCP");
    }
}

fn tag(image: &str) -> &str {
    if image.contains('@') {
        return "";
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split_once(':').map_or("latest", |(_, tag)| tag)
}

/// A limit without a request becomes the request too.
fn default_requests(container: &mut Value) {
    let Some(limits) = container.map("resources.limits").cloned() else {
        return;
    };
    let requests = container.map_mut("resources.requests");
    for (name, quantity) in limits {
        requests.entry(name).or_insert(quantity);
    }
}

/// A new pod is Pending, whatever status the client sent.
pub(super) fn prepare_create(pod: &mut Value) {
    pod.put(
        "status",
        json!({"phase": "Pending", "qosClass": quality_of_service(pod)}),
    );
    if !pod.list("spec.schedulingGates").is_empty() {
        let gated = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "scheduling waits until the pod's scheduling gates are removed",
            "lastProbeTime": null,
            "lastTransitionTime": pod.text("metadata.creationTimestamp"),
        }]);
        pod.put("status.conditions", gated);
    }
    default_tolerations(pod);
    if pod.text("spec.serviceAccountName").is_empty() {
        pod.put("spec.serviceAccountName", "default");
        pod.put("spec.serviceAccount", "default");
    }
}

/// Pods tolerate an unready or unreachable node for five minutes unless they say otherwise.
fn default_tolerations(pod: &mut Value) {
    let mut tolerations = pod.list("spec.tolerations").to_vec();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let covered = tolerations.iter().any(|t| {
            (t.text("key") == key || t.text("key").is_empty())
                && (t.text("effect") == "NoExecute" || t.text("effect").is_empty())
        });
        if !covered {
            tolerations.push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }));
        }
    }
    pod.put("spec.tolerations", tolerations);
}

fn quality_of_service(pod: &Value) -> &'static str {
    let mut asked = false;
    let mut guaranteed = true;
    for list in CONTAINER_LISTS {
        for container in pod.list(&format!("spec.{list}")) {
            for resource in ["cpu", "memory"] {
                let of = |kind: &str| {
                    container
                        .map(kind)
                        .and_then(|m| m.get(resource))
                        .filter(|q| *q != "0")
                };
                let (request, limit) = (of("resources.requests"), of("resources.limits"));
                asked |= request.is_some() || limit.is_some();
                guaranteed &= limit.is_some() && limit == request;
            }
        }
    }
    match (asked, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(limits: &Value, requests: &Value) -> Value {
        let resources = json!({"limits": limits, "requests": requests});
        let mut pod = json!({"spec": {"containers": [{"name": "c", "image": "i:1", "resources": resources}]}});
        default_pod(&mut pod);
        prepare_create(&mut pod);
        pod
    }

    #[test]
    fn requests_default_from_limits_and_decide_the_quality_of_service() {
        let none = json!({});
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let pod_with_limits = pod(&both, &none);
        let resources = &pod_with_limits["spec"]["containers"][0]["resources"];
        assert_eq!(resources["requests"], both);
        assert_eq!(pod_with_limits.text("status.qosClass"), "Guaranteed");
        assert_eq!(pod(&none, &none).text("status.qosClass"), "BestEffort");
        assert_eq!(
            pod(&none, &json!({"cpu": "1"})).text("status.qosClass"),
            "Burstable"
        );
        assert_eq!(
            pod(&json!({"x.io/y": "1"}), &none).text("status.qosClass"),
            "BestEffort"
        );
    }

    #[test]
    fn a_gated_pod_says_so_and_every_pod_starts_pending() {
        let mut gated = json!({"spec": {"schedulingGates": [{"name": "g"}], "containers": []},
            "status": {"phase": "Running"}});
        prepare_create(&mut gated);
        assert_eq!(gated.text("status.phase"), "Pending");
        assert_eq!(
            gated["status"]["conditions"][0]["reason"],
            "SchedulingGated"
        );
    }

    #[test]
    fn the_pull_policy_follows_the_tag() {
        for (image, expected) in [
            ("busybox", "latest"),
            ("host:5000/busybox", "latest"),
            ("host:5000/busybox:1.2", "1.2"),
            ("busybox@sha256:aa", ""),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
