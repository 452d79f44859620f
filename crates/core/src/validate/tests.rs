use super::*;
use crate::amounts::Amounts;
use crate::gpu::{self, AliyunUnit, CORE, MEMORY, Reading};
use crate::request::{Part, Want};

fn container<'a>(limits: &[(&'a str, &'a str)]) -> ContainerView<'a> {
    ContainerView {
        name: "train",
        role: Role::App,
        index: 0,
        limits: limits.to_vec(),
    }
}

fn all_dialects() -> Dialects {
    gpu::read(Reading {
        aliyun: AliyunUnit::GiB,
        hami: true,
    })
}

fn pod_of<'a>(
    containers: Vec<ContainerView<'a>>,
    annotations: &[(&'a str, &'a str)],
) -> PodView<'a> {
    PodView {
        containers,
        annotations: annotations.to_vec(),
    }
}

/// A pod with one container.
fn pod<'a>(limits: &[(&'a str, &'a str)], annotations: &[(&'a str, &'a str)]) -> PodView<'a> {
    pod_of(vec![container(limits)], annotations)
}

fn check(limits: &[(&str, &str)]) -> Result<Option<ContainerAsk>, String> {
    validate(&all_dialects(), &pod(limits, &[]))
        .map(|ask| ask.and_then(|ask| ask.containers.first().cloned()))
        .map_err(|violations| violations.to_string())
}

fn asked(limits: &[(&str, &str)]) -> (u32, Want, Amounts) {
    let ask = check(limits).unwrap().unwrap();
    (ask.cards, ask.want, ask.limit)
}

fn share(memory: u64, core: u64) -> Want {
    Want::share(Amounts::of(MEMORY, memory).with(CORE, core))
}

/// Checks that a container with these limits asks for this many cards, with no limit of its own.
fn asks_for(limits: &[(&str, &str)], cards: u32, want: Want) {
    assert_eq!(asked(limits), (cards, want, Amounts::ZERO), "{limits:?}");
}

#[test]
fn our_dialect_counts_cards_and_asks_for_the_same_of_each() {
    let (gpu, mem, core) = (
        "gpushare.io/gpu",
        "gpushare.io/gpu-mem",
        "gpushare.io/gpu-core",
    );
    asks_for(&[(gpu, "1"), (mem, "3072")], 1, share(3072, 0));
    asks_for(&[(gpu, "1"), (mem, "3Ki")], 1, share(3072, 0));
    asks_for(
        &[(gpu, "4"), (mem, "3072"), (core, "25")],
        4,
        share(3072, 25),
    );
    asks_for(&[(gpu, "2")], 2, Want::Whole);
    assert_eq!(check(&[("cpu", "1")]), Ok(None));
}

#[test]
fn aliyuns_count_gives_each_card_the_same_request() {
    let (mem, count) = ("aliyun.com/gpu-mem", "aliyun.com/gpu-count");
    asks_for(&[(mem, "3")], 1, share(3072, 0));
    asks_for(&[(mem, "3"), (count, "2")], 2, share(3072, 0));
}

#[test]
fn the_cluster_may_count_the_predecessors_memory_in_mib() {
    let pod = pod(&[("aliyun.com/gpu-mem", "3072")], &[]);
    let ask = validate(&gpu::dialects(AliyunUnit::MiB), &pod);
    let ask = ask.unwrap().unwrap();
    assert_eq!(ask.containers[0].want, share(3072, 0));
}

#[test]
fn tencents_hundreds_are_whole_cards_whose_memory_is_limited_together() {
    let (core, memory) = ("tencent.com/vcuda-core", "tencent.com/vcuda-memory");
    asks_for(&[(core, "30"), (memory, "10")], 1, share(2560, 30));
    asks_for(&[(core, "200")], 2, Want::Whole);
    let limited = (2, Want::Whole, Amounts::of(MEMORY, 1024));
    assert_eq!(asked(&[(core, "200"), (memory, "8")]), limited);
}

#[test]
fn hamis_percents_are_of_whatever_card_it_will_be() {
    let (gpu, mem, part, cores) = (
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
    );
    let percent = |memory, core| {
        Want::Share(Part {
            amounts: Amounts::of(CORE, core),
            percent: Amounts::of(MEMORY, memory),
        })
    };
    asks_for(
        &[(gpu, "2"), (mem, "3000"), (cores, "30")],
        2,
        share(3000, 30),
    );
    asks_for(&[(gpu, "1"), (part, "50")], 1, percent(50, 0));
    asks_for(&[(gpu, "1"), (cores, "30")], 1, percent(100, 30));
    asks_for(&[(gpu, "1")], 1, Want::Whole);
    let zeros = [(gpu, "1"), (mem, "3000"), (part, "0"), (cores, "0")];
    asks_for(&zeros, 1, share(3000, 0));
}

#[test]
fn without_consent_nvidias_resources_are_not_ours() {
    let pod = pod(&[("nvidia.com/gpu", "1")], &[]);
    assert_eq!(validate(&gpu::dialects(AliyunUnit::GiB), &pod), Ok(None));
}

#[test]
fn a_refusal_names_container_field_value_and_fix() {
    let table: &[(&[(&str, &str)], &str)] = &[
        (
            &[("aliyun.com/gpu-mem", "10G")],
            r#"aliyun.com/gpu-mem: "10G" means 10000000000 GiB, more than any card has; the unit is GiB: write a plain number of GiB without a suffix"#,
        ),
        (
            &[("aliyun.com/gpu-mem", "0")],
            r#"aliyun.com/gpu-mem: "0" asks for nothing; write at least 1 GiB, or remove it if the container needs none"#,
        ),
        (
            &[("aliyun.com/gpu-mem", "-1")],
            r#"aliyun.com/gpu-mem: "-1" must not be negative; write a plain number of GiB"#,
        ),
        (
            &[("aliyun.com/gpu-mem", "1500m")],
            r#"aliyun.com/gpu-mem: "1500m" must be a whole number; write a plain number of GiB"#,
        ),
        (
            &[("aliyun.com/gpu-count", "2")],
            r#"aliyun.com/gpu-mem: "" is missing; write how many GiB of each card the container needs"#,
        ),
        (
            &[("gpushare.io/gpu-mem", "3072")],
            r#"gpushare.io/gpu: "" is missing; write gpushare.io/gpu: 1, or how many cards the container needs"#,
        ),
        (
            &[("gpushare.io/gpu", "1"), ("gpushare.io/gpu-core", "50")],
            r#"gpushare.io/gpu-mem: "" is missing; write how many MiB of each card the container needs"#,
        ),
        (
            &[("gpushare.io/gpu", "65")],
            r#"gpushare.io/gpu: "65" is more cards than any node has; it counts cards: write at most 64"#,
        ),
        (
            &[("gpushare.io/gpu", "0")],
            r#"gpushare.io/gpu: "0" asks for no card; write how many cards the container needs, or remove it"#,
        ),
        (
            &[
                ("gpushare.io/gpu", "1"),
                ("gpushare.io/gpu-mem", "1"),
                ("gpushare.io/gpu-core", "101"),
            ],
            r#"gpushare.io/gpu-core: "101" means 101 percent of the card, more than any card has; the unit is percent of the card: write a plain number of percent of the card without a suffix"#,
        ),
        (
            &[
                ("gpushare.io/gpu", "1"),
                ("gpushare.io/gpu-mem", "3072"),
                ("aliyun.com/gpu-mem", "3"),
            ],
            r#"aliyun.com/gpu-mem: "3" must not be combined with gpushare.io/gpu in one container; keep the resources of one dialect only"#,
        ),
        (
            &[("tencent.com/vcuda-core", "150")],
            r#"tencent.com/vcuda-core: "150" is neither a part of one card nor a number of whole ones; write 1 to 99 for a part of a card, or 100 for each whole card. container "train": tencent.com/vcuda-memory: "" is missing; write how many blocks of 256 MiB of each card the container needs"#,
        ),
        (
            &[
                ("nvidia.com/gpu", "1"),
                ("nvidia.com/gpumem-percentage", "120"),
            ],
            r#"nvidia.com/gpumem-percentage: "120" is more than all of a card; write 1 to 100"#,
        ),
        (
            &[
                ("nvidia.com/gpu", "1"),
                ("nvidia.com/gpumem", "1"),
                ("nvidia.com/gpumem-percentage", "1"),
            ],
            r#"nvidia.com/gpumem-percentage: "1" must not be combined with nvidia.com/gpumem, which means the same; keep one of them"#,
        ),
    ];
    for (limits, expected) in table {
        let expected = format!("container \"train\": {expected}");
        assert_eq!(check(limits), Err(expected));
    }
}

#[test]
fn every_violation_of_every_container_and_annotation_is_in_one_message() {
    let container = |name, value| ContainerView {
        name,
        ..container(&[("aliyun.com/gpu-mem", value)])
    };
    let containers =
        [("a", "0"), ("b", "2"), ("c", "x")].map(|(name, value)| container(name, value));
    let choices = [
        ("gpushare.io/policy", "best"),
        ("gpushare.io/card-models", ","),
    ];
    let pod = pod_of(containers.into(), &choices);
    let violations = validate(&all_dialects(), &pod).unwrap_err();
    let places: Vec<&str> = violations
        .0
        .iter()
        .map(|v| v.container.as_deref().unwrap_or(&v.field))
        .collect();
    let annotations = ["gpushare.io/policy", "gpushare.io/card-models"];
    assert_eq!(places, ["a", "c", annotations[0], annotations[1]]);
    let text = violations.to_string();
    assert!(
        text.contains(
            r#"annotation gpushare.io/policy: "best" is not a policy; write one of binpack, spread"#
        ),
        "{text}"
    );
}

#[test]
fn annotations_choose_among_the_cards() {
    let annotations = [
        ("gpushare.io/card-models", "T4, A100"),
        ("nvidia.com/nouse-gputype", "PCIE"),
        ("gpushare.io/exclude-card-ids", "GPU-1"),
        ("gpushare.io/policy", "spread"),
    ];
    let pod = pod(&[("aliyun.com/gpu-mem", "2")], &annotations);
    let ask = validate(&all_dialects(), &pod).unwrap().unwrap();
    let choice = &ask.containers[0].choice;
    assert!(choice.accepts_model("Tesla T4"));
    assert!(!choice.accepts_model("NVIDIA A100-PCIE-40GB"));
    assert!(!choice.accepts_id(&"GPU-1".into()));
    assert_eq!(choice.policy.as_deref(), Some("spread"));
}

#[test]
fn a_hostile_annotation_is_refused_and_not_repeated_in_full() {
    let long = "x,".repeat(100_000);
    let pod = pod(
        &[("aliyun.com/gpu-mem", "2")],
        &[("gpushare.io/card-ids", &long)],
    );
    let text = validate(&all_dialects(), &pod).unwrap_err().to_string();
    assert!(text.len() < 400 && text.contains("at most 64"), "{text}");
}

#[test]
fn annotations_of_a_pod_that_asks_for_nothing_are_not_judged() {
    let pod = pod(&[("cpu", "1")], &[("gpushare.io/policy", "best")]);
    assert_eq!(validate(&all_dialects(), &pod), Ok(None));
}

#[test]
fn containers_that_ask_nothing_do_not_hide_those_that_do() {
    let plain = ContainerView {
        name: "log",
        role: Role::Sidecar,
        ..container(&[("cpu", "1")])
    };
    let asking = container(&[("aliyun.com/gpu-mem", "2")]);
    let pod = pod_of(vec![plain, asking], &[]);
    let ask = validate(&all_dialects(), &pod).unwrap().unwrap();
    assert_eq!(ask.containers.len(), 1);
}

#[test]
fn an_ephemeral_container_gets_no_devices_whatever_else_it_asks_for() {
    let debugger = |limits: &[(&'static str, &'static str)]| ContainerView {
        role: Role::Ephemeral,
        ..container(limits)
    };
    let mut pod = pod_of(vec![debugger(&[("aliyun.com/gpu-mem", "2")])], &[]);
    let text = validate(&all_dialects(), &pod).unwrap_err().to_string();
    assert!(text.contains("ephemeral container"), "{text}");
    pod.containers = vec![debugger(&[("cpu", "1")])];
    assert_eq!(validate(&all_dialects(), &pod), Ok(None));
}

/// The containers of a pod, each asking for this many cards.
fn many(names: &[String], cards: &'static str) -> Vec<ContainerView<'static>> {
    let each = names.iter().map(|name| ContainerView {
        name: name.clone().leak(),
        ..container(&[("gpushare.io/gpu", cards), ("gpushare.io/gpu-mem", "1")])
    });
    each.collect()
}

#[test]
fn a_pod_that_asks_in_too_many_containers_is_refused_until_it_has_a_node() {
    let dialects = gpu::dialects(AliyunUnit::GiB);
    let names: Vec<String> = (0..40).map(|at| format!("c{at}")).collect();
    let cases = [
        (32, "8", None),
        (
            33,
            "1",
            Some(
                r#"container "c32": gpushare.io/gpu: "1" is the request number 33; ask in at most 32 containers of a pod"#,
            ),
        ),
        (
            17,
            "16",
            Some(
                r#"container "c16": gpushare.io/gpu: "16" brings the pod to 272 cards; ask for at most 256 in all containers together"#,
            ),
        ),
    ];
    for (containers, cards, expected) in cases {
        let pod = pod_of(many(&names[..containers], cards), &[]);
        let refused = validate(&dialects, &pod).err().map(|all| all.to_string());
        assert_eq!(refused.as_deref(), expected, "{containers} of {cards}");
        let placed = validate_bound(&dialects, &pod.containers).unwrap().unwrap();
        assert_eq!(placed.containers.len(), containers);
    }
}
