use super::*;
use crate::gpu::{self, AliyunUnit};

fn check(limits: &[(&str, &str)]) -> Result<Option<u64>, String> {
    let container = ContainerView {
        name: "train",
        role: Role::App,
        limits: limits.to_vec(),
    };
    validate(&gpu::dialects(AliyunUnit::GiB), &[container])
        .map(|ask| ask.map(|ask| ask.peak().get(gpu::MEMORY)))
        .map_err(|violations| violations.to_string())
}

#[test]
fn each_dialect_counts_in_its_own_unit() {
    assert_eq!(
        check(&[("gpushare.io/gpu", "1"), ("gpushare.io/gpu-mem", "3072")]),
        Ok(Some(3072))
    );
    assert_eq!(
        check(&[("gpushare.io/gpu", "1"), ("gpushare.io/gpu-mem", "3Ki")]),
        Ok(Some(3072))
    );
    assert_eq!(check(&[("aliyun.com/gpu-mem", "3")]), Ok(Some(3072)));
    assert_eq!(check(&[("cpu", "1"), ("nvidia.com/gpu", "1")]), Ok(None));
}

#[test]
fn the_cluster_may_count_the_predecessors_memory_in_mib() {
    let container = ContainerView {
        name: "c",
        role: Role::App,
        limits: vec![("aliyun.com/gpu-mem", "3072")],
    };
    let ask = validate(&gpu::dialects(AliyunUnit::MiB), &[container])
        .unwrap()
        .unwrap();
    assert_eq!(ask.peak().get(gpu::MEMORY), 3072);
}

#[test]
fn a_refusal_names_container_field_value_and_fix() {
    let table = [
        (
            vec![("aliyun.com/gpu-mem", "10G")],
            r#"container "train": aliyun.com/gpu-mem: "10G" means 10000000000 GiB, more than any card has; the unit is GiB: write a plain number of GiB without a suffix"#,
        ),
        (
            vec![("aliyun.com/gpu-mem", "0")],
            r#"container "train": aliyun.com/gpu-mem: "0" asks for nothing; write at least 1 GiB, or remove it if the container needs no card"#,
        ),
        (
            vec![("aliyun.com/gpu-mem", "-1")],
            r#"container "train": aliyun.com/gpu-mem: "-1" must not be negative; write a plain number of GiB"#,
        ),
        (
            vec![("aliyun.com/gpu-mem", "1500m")],
            r#"container "train": aliyun.com/gpu-mem: "1500m" must be a whole number; write a plain number of GiB"#,
        ),
        (
            vec![("gpushare.io/gpu-mem", "3072")],
            r#"container "train": gpushare.io/gpu: "" is missing; write gpushare.io/gpu: 1 beside gpushare.io/gpu-mem"#,
        ),
        (
            vec![("gpushare.io/gpu", "2"), ("gpushare.io/gpu-mem", "3072")],
            r#"container "train": gpushare.io/gpu: "2" is not one card; write gpushare.io/gpu: 1 beside gpushare.io/gpu-mem"#,
        ),
        (
            vec![("gpushare.io/gpu", "1")],
            r#"container "train": gpushare.io/gpu-mem: "" is missing; write how many MiB of the card the container needs"#,
        ),
        (
            vec![
                ("gpushare.io/gpu", "1"),
                ("gpushare.io/gpu-mem", "3072"),
                ("aliyun.com/gpu-mem", "3"),
            ],
            r#"container "train": aliyun.com/gpu-mem: "3" stands beside gpushare.io/gpu-mem in one container; keep the resources of one dialect only"#,
        ),
    ];
    for (limits, expected) in table {
        assert_eq!(check(&limits), Err(expected.to_owned()));
    }
}

#[test]
fn every_violation_of_every_container_is_in_one_message() {
    let container = |name, value| ContainerView {
        name,
        role: Role::App,
        limits: vec![("aliyun.com/gpu-mem", value)],
    };
    let violations = validate(
        &gpu::dialects(AliyunUnit::GiB),
        &[
            container("a", "0"),
            container("b", "2"),
            container("c", "x"),
        ],
    )
    .unwrap_err();
    let containers: Vec<&str> = violations.0.iter().map(|v| v.container.as_str()).collect();
    assert_eq!(containers, ["a", "c"]);
}

#[test]
fn containers_that_ask_nothing_do_not_hide_those_that_do() {
    let plain = ContainerView {
        name: "log",
        role: Role::Sidecar,
        limits: vec![("cpu", "1")],
    };
    let asking = ContainerView {
        name: "c",
        role: Role::App,
        limits: vec![("aliyun.com/gpu-mem", "2")],
    };
    let ask = validate(&gpu::dialects(AliyunUnit::GiB), &[plain, asking])
        .unwrap()
        .unwrap();
    assert_eq!(ask.containers.len(), 1);
}
