use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::*;
use crate::slim;

/// Checks the totals for each type that the pod can be read into.
fn check(rule: &str, spec: &Value, expected: &[(&str, i64)]) {
    let mut wanted: Totals = [(CPU, 0), (MEMORY, 0), (PODS, 1)]
        .map(|(name, n)| (name.to_owned(), n))
        .into();
    wanted.extend(expected.iter().map(|(name, n)| ((*name).to_owned(), *n)));
    let slim: slim::PodSpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(StatedResources::from(&slim).requests(), wanted, "{rule}");
    let full: PodSpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(StatedResources::from(&full).requests(), wanted, "{rule}");
}

fn asking(resources: &Value) -> Value {
    json!({"name": "c", "resources": resources})
}

fn requesting(cpu: &str) -> Value {
    asking(&json!({"requests": {"cpu": cpu}}))
}

fn sidecar(cpu: &str) -> Value {
    let mut sidecar = requesting(cpu);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

#[test]
fn a_pod_requests_the_peak_of_its_containers_and_the_overhead() {
    let spec = json!({
        "initContainers": [asking(&json!({"limits": {"gpushare.io/gpu": "3"}}))],
        "containers": [
            asking(&json!({
                "requests": {"cpu": "1500m"},
                "limits": {"cpu": "4", "memory": "1Gi", "gpushare.io/gpu": "1"},
            })),
            asking(&json!({"limits": {"cpu": "500m", "gpushare.io/gpu": "1"}})),
        ],
        "overhead": {"cpu": "10m"},
    });
    let expected = [("cpu", 2_010), ("gpushare.io/gpu", 3), ("memory", 1 << 30)];
    check("a missing request is the limit", &spec, &expected);
    let spec = json!({
        "initContainers": [requesting("5"), sidecar("1"), requesting("3")],
        "containers": [requesting("2")],
    });
    check(
        "the sidecar starts after the first",
        &spec,
        &[("cpu", 5_000)],
    );
    let spec = json!({
        "initContainers": [sidecar("2"), requesting("5")],
        "containers": [requesting("4")],
    });
    check("the sidecar runs beside both", &spec, &[("cpu", 7_000)]);
}

#[test]
fn every_resource_counts_that_kube_scheduler_counts() {
    let requests = json!({"requests": {"ephemeral-storage": "1Gi"}});
    let limits = json!({"limits": {
        "ephemeral-storage": "2Gi", "hugepages-2Mi": "4Mi", "example.com/dongle": "2", "pods": "7"}});
    let spec = json!({"containers": [asking(&requests), asking(&limits)]});
    let expected = [
        ("ephemeral-storage", 3 << 30),
        ("hugepages-2Mi", 4 << 20),
        ("example.com/dongle", 2),
    ];
    check("and nothing else", &spec, &expected);
    let spec = json!({"containers": [], "overhead": {"ephemeral-storage": "1Gi"}});
    check(
        "in the overhead too",
        &spec,
        &[("ephemeral-storage", 1 << 30)],
    );
}

#[test]
fn what_a_pod_requests_as_a_whole_takes_the_place_of_its_containers_requests() {
    let of = |pod: Value| {
        let one = json!({"requests": {"cpu": "1"}, "limits": {"example.com/dongle": "1"}});
        json!({"resources": pod, "containers": [asking(&one)], "overhead": {"cpu": "10m"}})
    };
    let dongle = ("example.com/dongle", 1);
    let huge = json!({"limits": {"hugepages-2Mi": "4Mi", "example.com/dongle": "9"}});
    for (what, pod, expected) in [
        (
            "requests of the pod",
            json!({"requests": {"cpu": "3"}}),
            &[("cpu", 3_010), dongle][..],
        ),
        (
            "less than the containers request",
            json!({"requests": {"cpu": "500m"}}),
            &[("cpu", 510), dongle],
        ),
        (
            "a limit of the pod, where a container requests",
            json!({"limits": {"cpu": "3"}}),
            &[("cpu", 1_010), dongle],
        ),
        (
            "a limit of the pod, where no container requests",
            json!({"limits": {"cpu": "3", "memory": "1Gi"}}),
            &[("cpu", 1_010), ("memory", 1 << 30), dongle],
        ),
        (
            "only CPU, memory and huge pages can be requested so",
            huge,
            &[("cpu", 1_010), ("hugepages-2Mi", 4 << 20), dongle],
        ),
    ] {
        check(what, &of(pod), expected);
    }
}

#[test]
fn limits_add_up_as_requests_do_and_overhead_counts_where_there_is_a_limit() {
    let limited = |cpu: &str| asking(&json!({"limits": {"cpu": cpu}}));
    let mut spec = json!({
        "initContainers": [limited("5")],
        "containers": [limited("1"), limited("2"), requesting("9")],
        "overhead": {"cpu": "10m", "memory": "1Gi"},
    });
    let limit = |spec: &Value, resource: &str| {
        let spec: slim::PodSpec = serde_json::from_value(spec.clone()).unwrap();
        StatedResources::from(&spec).limit(resource)
    };
    assert_eq!(limit(&spec, CPU), 5_010);
    assert_eq!(limit(&spec, MEMORY), 0);
    spec["resources"] = json!({"limits": {"cpu": "20"}});
    assert_eq!(limit(&spec, CPU), 20_010);
}

#[test]
fn a_node_lacks_what_is_needed_and_not_free() {
    let totals = |all: &[(&str, i64)]| -> Totals {
        let all = all.iter().map(|(name, n)| ((*name).to_owned(), *n));
        all.collect()
    };
    let needs = totals(&[("cpu", 2), ("memory", 0), ("pods", 1), ("x.io/y", 1)]);
    let free = totals(&[("cpu", 2), ("memory", -1), ("pods", 0)]);
    let lacking = lacking(&needs, |name| free.get(name).copied().unwrap_or(0));
    let reasons: Vec<String> = lacking.map(|(name, _)| reason(name)).collect();
    assert_eq!(reasons, ["Too many pods", "Insufficient x.io/y"]);
}

#[test]
fn amounts_read_back_as_they_are_written() {
    for (resource, written, counted) in [
        (CPU, "1500m", 1_500),
        (CPU, "2", 2_000),
        (MEMORY, "8192Mi", 8 << 30),
        ("ephemeral-storage", "1024Mi", 1 << 30),
        ("hugepages-2Mi", "4Mi", 4 << 20),
        ("gpushare.io/gpu-mem", "3072", 3_072),
    ] {
        assert_eq!(amount(resource, written), counted);
        assert_eq!(text(resource, counted), written);
    }
}
