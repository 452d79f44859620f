//! Requests in the dialects of the predecessors, as their users write them.

use std::collections::BTreeMap;

use e2e::manifest::IMAGE;
use e2e::world::{NODE, recorded_card, recorded_cards};
use e2e::{Kubectl, Setup, World, wait};
use gpushare_core::CardId;
use serde_json::{Value, json};

/// A pod with the annotations and the resources of a dialect.
fn pod(name: &str, annotations: &str, resources: &str) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{{annotations}}}}}
spec:
  containers:
  - name: app
    image: {IMAGE}
    command: [sleep, "3600"]
    resources: {{{resources}}}
"#
    )
}

fn apply(world: &World, manifests: &[String]) {
    world.rig().apply(&manifests.join("---")).unwrap();
}

fn joined(cards: &[CardId]) -> String {
    let cards: Vec<&str> = cards.iter().map(CardId::as_str).collect();
    cards.join(",")
}

fn expect(env: &BTreeMap<String, String>, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        let found = env.get(*name).map(String::as_str);
        assert_eq!(found, Some(*value), "{name} in {env:?}");
    }
}

/// Waits until a pod runs, and checks how many cards its first container has, that it sees them, and these variables.
fn runs_on(world: &World, name: &str, cards: usize, env: &[(&str, &str)]) -> (Value, Vec<CardId>) {
    let pod = world.wait_running(name);
    let has = recorded_cards(&pod).remove(0);
    assert_eq!(has.len(), cards, "{name}");
    let found = world.env_inside(name);
    expect(&found, &[("NVIDIA_VISIBLE_DEVICES", &joined(&has))]);
    expect(&found, env);
    (pod, has)
}

fn annotations(pod: &Value) -> &Value {
    &pod["metadata"]["annotations"]
}

/// Waits until a pod with this label runs.
fn labelled(world: &World, app: &str) -> (String, Value) {
    let name = wait::until(&format!("a pod of {app}"), || {
        let list = world.get(&format!("pods --selector=app={app}")).unwrap();
        match list["items"][0]["metadata"]["name"].as_str() {
            Some(name) => Ok(name.to_owned()),
            None => Err(list),
        }
    });
    let pod = world.wait_running(&name);
    (name, pod)
}

/// A Deployment of one pod, which asks for memory alone, and a pod that asks for cards too.
fn aliyun(deployment: &str, several: &str) -> [String; 2] {
    let deployment = format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {deployment}, labels: {{app: {deployment}}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {deployment}}}}}
  template:
    metadata: {{labels: {{app: {deployment}}}}}
    spec:
      containers:
      - name: share
        image: {IMAGE}
        command: [sleep, "3600"]
        resources:
          limits:
            # GiB
            aliyun.com/gpu-mem: 3
"#
    );
    let resources = "limits: {aliyun.com/gpu-mem: 3, aliyun.com/gpu-count: 2}";
    [deployment, pod(several, "", resources)]
}

#[test]
fn aliyuns_memory_and_count_run_with_the_variables_and_annotations_of_aliyun() {
    let world = World::start(&[16384, 16384]);
    apply(&world, &aliyun("share", "twice"));
    let (name, pod) = labelled(&world, "share");
    let card = recorded_card(&pod);
    let index = world.cards().iter().position(|known| *known == card);
    let index = index.unwrap().to_string();
    expect(
        &world.env_inside(&name),
        &[
            ("NVIDIA_VISIBLE_DEVICES", card.as_str()),
            ("ALIYUN_COM_GPU_MEM_IDX", &index),
            ("ALIYUN_COM_GPU_MEM_POD", "3"),
            ("ALIYUN_COM_GPU_MEM_CONTAINER", "3"),
            ("ALIYUN_COM_GPU_MEM_DEV", "16"),
        ],
    );
    for (annotation, value) in [
        ("ALIYUN_COM_GPU_MEM_IDX", &*index),
        ("ALIYUN_COM_GPU_MEM_POD", "3"),
        ("ALIYUN_COM_GPU_MEM_DEV", "16"),
        ("ALIYUN_COM_GPU_MEM_ASSIGNED", "true"),
    ] {
        assert_eq!(annotations(&pod)[annotation], value, "{annotation}");
    }

    let three = [
        ("GPUSHARE_MEMORY_MIB", "3072"),
        ("ALIYUN_COM_GPU_MEM_CONTAINER", "3"),
    ];
    let (pod, _) = runs_on(&world, "twice", 2, &three);
    let allocation = &annotations(&pod)["scheduler.framework.gpushare.allocation"];
    let allocation: Value = serde_json::from_str(allocation.as_str().unwrap()).unwrap();
    assert_eq!(allocation, json!({"0": {"0": 3, "1": 3}}));
    let mut booked = world.booked();
    booked.sort_unstable();
    assert_eq!(booked, [3, 6]);

    // Kubernetes itself limits gpu-count to the number of cards; a request for memory alone is not affected.
    apply(&world, &aliyun("more", "once-more"));
    world.wait_event("once-more", "Insufficient aliyun.com/gpu-count");
    labelled(&world, "more");
}

fn tencent(name: &str, amounts: &str) -> String {
    let resources = format!("requests: {{{amounts}}}, limits: {{{amounts}}}");
    pod(name, "", &resources)
}

#[test]
fn tencents_parts_and_hundreds_run_on_cards_of_their_own() {
    let world = World::start(&[8192; 4]);
    let part = "tencent.com/vcuda-core: 30, tencent.com/vcuda-memory: 10";
    let limited = "tencent.com/vcuda-core: 100, tencent.com/vcuda-memory: 20";
    let pods = [
        tencent("part", part),
        tencent("limited", limited),
        tencent("two", "tencent.com/vcuda-core: 200"),
    ];
    apply(&world, &pods);
    let mut held = Vec::new();
    for (name, count, memory, core) in [
        ("part", 1, "2560", "30"),
        ("limited", 1, "5120", "100"),
        ("two", 2, "8192", "100"),
    ] {
        let env = [
            ("GPUSHARE_MEMORY_MIB", memory),
            ("GPUSHARE_CORE_PERCENT", core),
        ];
        let (pod, cards) = runs_on(&world, name, count, &env);
        let all = world.cards();
        let index = |card: &CardId| all.iter().position(|known| known == card).unwrap();
        let indexes: Vec<String> = cards.iter().map(|card| index(card).to_string()).collect();
        for (annotation, value) in [
            ("tencent.com/predicate-gpu-idx-0", &*indexes.join(",")),
            ("tencent.com/predicate-node", NODE),
            ("tencent.com/gpu-assigned", "true"),
        ] {
            assert_eq!(annotations(&pod)[annotation], value, "{annotation}");
        }
        held.extend(cards);
    }
    held.sort();
    held.dedup();
    assert_eq!(held.len(), 4, "a whole card is nobody else's: {held:?}");

    // Beside whole cards, a share goes to the card that is already shared.
    apply(&world, &[tencent("beside", part)]);
    let beside = recorded_card(&world.wait_running("beside"));
    assert_eq!(beside, recorded_card(&world.pod("part").unwrap()));
}

#[test]
fn hamis_memory_percents_cores_and_choices_run_with_the_variables_of_hami() {
    let cards = [
        ("NVIDIA A10", 24_576),
        ("NVIDIA A10", 24_576),
        ("Tesla T4", 16_384),
    ];
    let mut world = World::with(Setup::models(&cards).hami());
    let cards = world.cards();
    let elsewhere = format!(
        r#"nvidia.com/nouse-gputype: "T4", nvidia.com/nouse-gpuuuid: "{}""#,
        cards[0]
    );
    let there = format!(r#"nvidia.com/use-gpuuuid: "{}""#, cards[1]);
    let hami = |name: &str, annotations: &str, limits: &str| {
        let resources = format!("limits: {{nvidia.com/gpu: {limits}}}");
        pod(name, annotations, &resources)
    };
    let pods = [
        hami(
            "memory",
            "",
            "2, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30",
        ),
        hami(
            "percent",
            r#"nvidia.com/use-gputype: "T4,V100""#,
            "1, nvidia.com/gpumem-percentage: 50",
        ),
        hami("elsewhere", &elsewhere, "1, nvidia.com/gpumem: 1000"),
        hami(
            "there",
            &there,
            "1, nvidia.com/gpumem: 1000, nvidia.com/gpucores: 0",
        ),
    ];
    apply(&world, &pods);

    let limits = [
        ("CUDA_DEVICE_MEMORY_LIMIT_0", "3000m"),
        ("CUDA_DEVICE_MEMORY_LIMIT_1", "3000m"),
        ("CUDA_DEVICE_SM_LIMIT", "30"),
    ];
    let (pod, two) = runs_on(&world, "memory", 2, &limits);
    let devices = format!("{},NVIDIA,3000,30:{},NVIDIA,3000,30:;", two[0], two[1]);
    assert_eq!(
        annotations(&pod)["hami.io/vgpu-devices-allocated"],
        *devices
    );
    assert_eq!(annotations(&pod)["hami.io/vgpu-node"], NODE);

    for (name, card, mib) in [
        ("percent", &cards[2], "8192m"),
        ("elsewhere", &cards[1], "1000m"),
        ("there", &cards[1], "1000m"),
    ] {
        let limits = [
            ("CUDA_DEVICE_MEMORY_LIMIT_0", mib),
            ("CUDA_DEVICE_SM_LIMIT", "0"),
        ];
        let (_, cards) = runs_on(&world, name, 1, &limits);
        assert_eq!(cards[0], *card, "{name}");
    }

    // When the dialect is switched off, the totals disappear, and neither kubelet nor API server restores them.
    world.kill_agent();
    world.setup.hami = false;
    world.start_agent();
    wait::until("HAMi's totals to be gone", || {
        let node = world.get(&format!("node {NODE}")).unwrap();
        let offered = ["gpumem", "gpumem-percentage", "gpucores"]
            .iter()
            .any(|name| {
                let name = format!("nvidia.com/{name}");
                ["capacity", "allocatable"]
                    .iter()
                    .any(|list| !node["status"][list][&*name].is_null())
            });
        if offered { Err(node) } else { Ok(()) }
    });
}
