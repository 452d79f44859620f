//! Validation of pods: the subset of the real server's checks that catches mistakes of our users and tests.

use std::collections::BTreeSet;

use serde_json::Value;

use super::meta::{is_dns_label, is_qualified_name, is_subdomain};
use crate::failure::Cause;
use crate::json::Path;
use crate::quantity::Quantity;

pub(super) fn check(pod: &Value) -> Vec<Cause> {
    check_spec(pod, "spec")
}

/// Validates the pod spec at a path, so that it can check templates too.
pub(super) fn check_spec(object: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut names = BTreeSet::new();
    for list in ["initContainers", "containers"] {
        let field = format!("{path}.{list}");
        let containers = object.list(&field);
        if list == "containers" && containers.is_empty() {
            causes.push(Cause::required(&field, ""));
        }
        for (index, container) in containers.iter().enumerate() {
            let field = format!("{field}[{index}]");
            causes.extend(check_container(container, &field));
            if !names.insert(container.text("name")) && !container.text("name").is_empty() {
                let name = container.text("name").into();
                causes.push(Cause::duplicate(format!("{field}.name"), &name));
            }
        }
    }
    let restart = object.text(&format!("{path}.restartPolicy"));
    let allowed = ["Always", "OnFailure", "Never"];
    if !allowed.contains(&restart) {
        let field = format!("{path}.restartPolicy");
        causes.push(Cause::not_supported(field, &restart.into(), &allowed));
    }
    let node = object.text(&format!("{path}.nodeName"));
    if !node.is_empty() && !is_subdomain(node) {
        let field = format!("{path}.nodeName");
        causes.push(Cause::invalid(
            field,
            &node.into(),
            "must be the name of a node",
        ));
    }
    let grace = format!("{path}.terminationGracePeriodSeconds");
    if object.int(&grace).is_some_and(|seconds| seconds < 0) {
        let value = object.int(&grace).into();
        causes.push(Cause::invalid(
            grace,
            &value,
            "must be greater than or equal to 0",
        ));
    }
    causes
}

fn check_container(container: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = container.text("name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{field}.name"), ""));
    } else if !is_dns_label(name) {
        let why = "must be at most 63 lower case letters, digits or '-'";
        causes.push(Cause::invalid(format!("{field}.name"), &name.into(), why));
    }
    if container.text("image").is_empty() {
        causes.push(Cause::required(format!("{field}.image"), ""));
    }
    causes.extend(check_resources(container, &format!("{field}.resources")));
    causes
}

fn check_resources(container: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for kind in ["limits", "requests"] {
        for (name, quantity) in container
            .map(&format!("resources.{kind}"))
            .into_iter()
            .flatten()
        {
            let field = format!("{field}.{kind}[{name}]");
            if !is_container_resource(name) {
                let why = "must be a standard resource for containers or a qualified name";
                causes.push(Cause::invalid(&field, &name.as_str().into(), why));
            }
            causes.extend(check_quantity(name, quantity, &field));
        }
    }
    let limits = container.map("resources.limits");
    for (name, request) in container.map("resources.requests").into_iter().flatten() {
        let limit = limits.and_then(|limits| limits.get(name));
        causes.extend(check_request(name, request, limit, field));
    }
    causes
}

fn check_quantity(name: &str, value: &Value, field: &str) -> Option<Cause> {
    let quantity = parse(value)?;
    if quantity.is_negative() {
        return Some(Cause::invalid(
            field,
            value,
            "must be greater than or equal to 0",
        ));
    }
    if is_extended(name) && !quantity.is_whole() {
        return Some(Cause::invalid(field, value, "must be an integer"));
    }
    None
}

fn check_request(name: &str, value: &Value, limit: Option<&Value>, field: &str) -> Option<Cause> {
    let request = parse(value)?;
    let Some(limit_value) = limit else {
        let why = "Limit must be set for non overcommitable resources";
        return is_extended(name).then(|| Cause::required(format!("{field}.limits"), why));
    };
    let limit = parse(limit_value)?;
    let field = format!("{field}.requests");
    if is_extended(name) && !request.equals(limit) {
        let why = format!("must be equal to {name} limit of {}", limit.canonical());
        return Some(Cause::invalid(field, value, &why));
    }
    if request.exceeds(limit) {
        let why = format!(
            "must be less than or equal to {name} limit of {}",
            limit.canonical()
        );
        return Some(Cause::invalid(field, value, &why));
    }
    None
}

fn parse(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

fn is_container_resource(name: &str) -> bool {
    if !name.contains('/') {
        return matches!(name, "cpu" | "memory" | "ephemeral-storage")
            || name.starts_with("hugepages-");
    }
    is_qualified_name(name) && !name.starts_with("requests.")
}

/// Extended resources, which are not Kubernetes' own, cannot be overcommitted: integers, and request equals limit.
fn is_extended(name: &str) -> bool {
    name.split_once('/')
        .is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

/// The spec of a pod cannot be changed, except for a few fields.
pub(super) fn check_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = check(new);
    if fixed_part(new) != fixed_part(old) {
        let why = "pod updates may change only container images, activeDeadlineSeconds, \
                   added tolerations and removed scheduling gates";
        causes.push(Cause::forbidden("spec", why));
    }
    let kept = |field: &str, from: &Value, inside: &Value| {
        from.list(field)
            .iter()
            .all(|item| inside.list(field).contains(item))
    };
    if !kept("spec.tolerations", old, new) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", why));
    }
    if !kept("spec.schedulingGates", new, old) {
        let why = "only deletion is allowed, but found new scheduling gates";
        causes.push(Cause::forbidden("spec.schedulingGates", why));
    }
    causes
}

fn fixed_part(pod: &Value) -> Value {
    let mut spec = pod.at("spec").cloned().unwrap_or_default();
    let gated = !pod.list("spec.schedulingGates").is_empty();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        spec.remove(field);
    }
    if gated {
        // While a pod is gated, its choice of nodes may still be narrowed.
        spec.remove("nodeSelector");
        spec.remove("affinity");
    }
    for list in ["containers", "initContainers"] {
        for container in spec.list_mut(list) {
            container.remove("image");
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(container: &Value) -> Value {
        json!({"spec": {"restartPolicy": "Always", "containers": [container]}})
    }

    fn check_fields(container: &Value, expected: &[&str]) {
        let causes = check(&pod(container)).into_iter();
        let found: Vec<_> = causes.map(|cause| cause.field).collect();
        assert_eq!(found, expected, "{container}");
    }

    #[test]
    fn containers_need_a_name_an_image_and_sane_resources() {
        let with = |limits: &Value, requests: &Value| {
            let resources = json!({"limits": limits, "requests": requests});
            json!({"name": "c", "image": "i", "resources": resources})
        };
        let mem = json!({"x.io/mem": "4"});
        check_fields(&with(&mem, &mem), &[]);
        check_fields(&json!({"image": "i"}), &["spec.containers[0].name"]);
        check_fields(
            &json!({"name": "C", "image": "i"}),
            &["spec.containers[0].name"],
        );
        check_fields(&json!({"name": "c"}), &["spec.containers[0].image"]);
        let at = |rest: &str| format!("spec.containers[0].resources.{rest}");
        let (limits, requests) = (at("limits"), at("requests"));
        check_fields(&with(&json!({}), &mem), &[&limits]);
        check_fields(&with(&mem, &json!({"x.io/mem": "3"})), &[&requests]);
        check_fields(
            &with(&json!({"cpu": "1"}), &json!({"cpu": "2"})),
            &[&requests],
        );
        let one = |name: &str, quantity: &str| with(&json!({name: quantity}), &json!({}));
        check_fields(&one("x.io/mem", "1500m"), &[&at("limits[x.io/mem]")]);
        check_fields(&one("x.io/mem", "-1"), &[&at("limits[x.io/mem]")]);
        check_fields(&one("gpu", "1"), &[&at("limits[gpu]")]);
    }

    #[test]
    fn two_containers_cannot_share_a_name_and_one_is_needed() {
        let container = json!({"name": "c", "image": "i"});
        let twins =
            json!({"spec": {"restartPolicy": "Never", "containers": [container, container]}});
        assert_eq!(check(&twins)[0].field, "spec.containers[1].name");
        let none = json!({"spec": {"restartPolicy": "Never"}});
        assert_eq!(check(&none)[0].field, "spec.containers");
    }

    #[test]
    fn only_images_tolerations_and_gates_of_a_pod_may_change() {
        let old = pod(&json!({"name": "c", "image": "1"}));
        let image = pod(&json!({"name": "c", "image": "2"}));
        assert!(check_update(&image, &old).is_empty());
        let mut bound = old.clone();
        bound.put("spec.nodeName", "n");
        assert_eq!(check_update(&bound, &old)[0].field, "spec");
        let mut gated = old.clone();
        gated.put("spec.schedulingGates", json!([{"name": "g"}]));
        assert!(check_update(&old, &gated).is_empty());
        assert_eq!(check_update(&gated, &old)[0].field, "spec.schedulingGates");
    }
}
