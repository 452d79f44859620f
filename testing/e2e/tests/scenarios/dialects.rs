//! Manifests of the predecessors, as their users write them. Only the image is replaced by one that exists.

use std::collections::BTreeMap;

use e2e::manifest::IMAGE;
use e2e::world::{NODE, recorded_card, recorded_cards};
use e2e::{Setup, World, wait};
use gpushare_core::CardId;
use serde_json::{Value, json};

/// Applies a manifest with the image filled in.
fn apply(world: &World, manifest: &str) {
    world
        .rig()
        .apply(&manifest.replace("IMAGE", IMAGE))
        .unwrap();
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

fn annotations(pod: &Value) -> &Value {
    &pod["metadata"]["annotations"]
}

/// Waits until a pod with this label runs.
fn labelled(world: &World, app: &str) -> (String, Value) {
    let name = wait::until(&format!("a pod of {app}"), || {
        let selector = format!("--selector=app={app}");
        let list = world.object(&["get", "pods", &selector]).unwrap();
        match list["items"][0]["metadata"]["name"].as_str() {
            Some(name) => Ok(name.to_owned()),
            None => Err(list),
        }
    });
    let pod = world.wait_running(&name);
    (name, pod)
}

const ALIYUN: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: share, labels: {app: share}}
spec:
  replicas: 1
  selector: {matchLabels: {app: share}}
  template:
    metadata: {labels: {app: share}}
    spec:
      containers:
      - name: share
        image: IMAGE
        command: [sleep, "3600"]
        resources:
          limits:
            # GiB
            aliyun.com/gpu-mem: 3
---
apiVersion: v1
kind: Pod
metadata: {name: twice}
spec:
  containers:
  - name: twice
    image: IMAGE
    command: [sleep, "3600"]
    resources:
      limits:
        aliyun.com/gpu-mem: 3
        aliyun.com/gpu-count: 2
"#;

#[test]
fn aliyuns_memory_and_count_run_with_the_variables_and_annotations_of_aliyun() {
    let world = World::start(&[16384, 16384]);
    apply(&world, ALIYUN);
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

    let pod = world.wait_running("twice");
    let cards = recorded_cards(&pod).remove(0);
    assert_eq!(cards.len(), 2);
    expect(
        &world.env_inside("twice"),
        &[
            ("NVIDIA_VISIBLE_DEVICES", &joined(&cards)),
            ("GPUSHARE_MEMORY_MIB", "3072"),
            ("ALIYUN_COM_GPU_MEM_CONTAINER", "3"),
        ],
    );
    let allocation = &annotations(&pod)["scheduler.framework.gpushare.allocation"];
    let allocation: Value = serde_json::from_str(allocation.as_str().unwrap()).unwrap();
    assert_eq!(allocation, json!({"0": {"0": 3, "1": 3}}));
    let mut booked = world.booked();
    booked.sort_unstable();
    assert_eq!(booked, [3, 6]);

    // Kubernetes itself limits gpu-count to the number of cards; a request for memory alone is not affected.
    apply(
        &world,
        &ALIYUN
            .replace("name: share", "name: more")
            .replace("app: share", "app: more")
            .replace("twice", "once-more"),
    );
    world.wait_event("once-more", "Insufficient aliyun.com/gpu-count");
    labelled(&world, "more");
}

const TENCENT: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: part}
spec:
  containers:
  - name: vcuda
    image: IMAGE
    command: [sleep, "3600"]
    resources:
      requests: {tencent.com/vcuda-core: 30, tencent.com/vcuda-memory: 10}
      limits: {tencent.com/vcuda-core: 30, tencent.com/vcuda-memory: 10}
---
apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  containers:
  - name: vcuda
    image: IMAGE
    command: [sleep, "3600"]
    resources:
      requests: {tencent.com/vcuda-core: 100, tencent.com/vcuda-memory: 20}
      limits: {tencent.com/vcuda-core: 100, tencent.com/vcuda-memory: 20}
---
apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  containers:
  - name: vcuda
    image: IMAGE
    command: [sleep, "3600"]
    resources:
      requests: {tencent.com/vcuda-core: 200}
      limits: {tencent.com/vcuda-core: 200}
"#;

#[test]
fn tencents_parts_and_hundreds_run_on_cards_of_their_own() {
    let world = World::start(&[8192; 4]);
    apply(&world, TENCENT);
    let mut held = Vec::new();
    for (name, count, memory, core) in [
        ("part", 1, "2560", "30"),
        ("limited", 1, "5120", "100"),
        ("two", 2, "8192", "100"),
    ] {
        let pod = world.wait_running(name);
        let cards = recorded_cards(&pod).remove(0);
        assert_eq!(cards.len(), count, "{name}");
        expect(
            &world.env_inside(name),
            &[
                ("NVIDIA_VISIBLE_DEVICES", &joined(&cards)),
                ("GPUSHARE_MEMORY_MIB", memory),
                ("GPUSHARE_CORE_PERCENT", core),
            ],
        );
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
    apply(&world, &TENCENT.replace("name: part", "name: beside"));
    let beside = recorded_card(&world.wait_running("beside"));
    assert_eq!(beside, recorded_card(&world.pod("part").unwrap()));
}

const HAMI: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: memory}
spec:
  containers:
  - name: ubuntu
    image: IMAGE
    command: [sleep, "3600"]
    resources:
      limits: {nvidia.com/gpu: 2, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30}
---
apiVersion: v1
kind: Pod
metadata:
  name: percent
  annotations: {nvidia.com/use-gputype: "T4,V100"}
spec:
  containers:
  - name: ubuntu
    image: IMAGE
    command: [sleep, "3600"]
    resources:
      limits: {nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50}
---
apiVersion: v1
kind: Pod
metadata:
  name: elsewhere
  annotations: {nvidia.com/nouse-gputype: "T4", nvidia.com/nouse-gpuuuid: "EXCLUDED"}
spec:
  containers:
  - name: ubuntu
    image: IMAGE
    command: [sleep, "3600"]
    resources:
      limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 1000}
---
apiVersion: v1
kind: Pod
metadata:
  name: there
  annotations: {nvidia.com/use-gpuuuid: "CHOSEN"}
spec:
  containers:
  - name: ubuntu
    image: IMAGE
    command: [sleep, "3600"]
    resources:
      limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 1000, nvidia.com/gpucores: 0}
"#;

#[test]
fn hamis_memory_percents_cores_and_choices_run_with_the_variables_of_hami() {
    let cards = [
        ("NVIDIA A10", 24_576),
        ("NVIDIA A10", 24_576),
        ("Tesla T4", 16_384),
    ];
    let mut world = World::with(Setup::models(&cards).hami());
    let cards = world.cards();
    let manifest = HAMI
        .replace("EXCLUDED", cards[0].as_str())
        .replace("CHOSEN", cards[1].as_str());
    apply(&world, &manifest);

    let pod = world.wait_running("memory");
    let two = recorded_cards(&pod).remove(0);
    assert_eq!(two.len(), 2);
    expect(
        &world.env_inside("memory"),
        &[
            ("NVIDIA_VISIBLE_DEVICES", &joined(&two)),
            ("CUDA_DEVICE_MEMORY_LIMIT_0", "3000m"),
            ("CUDA_DEVICE_MEMORY_LIMIT_1", "3000m"),
            ("CUDA_DEVICE_SM_LIMIT", "30"),
        ],
    );
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
        assert_eq!(recorded_card(&world.wait_running(name)), *card, "{name}");
        expect(
            &world.env_inside(name),
            &[
                ("NVIDIA_VISIBLE_DEVICES", card.as_str()),
                ("CUDA_DEVICE_MEMORY_LIMIT_0", mib),
                ("CUDA_DEVICE_SM_LIMIT", "0"),
            ],
        );
    }

    // When the dialect is switched off, the totals disappear, and neither kubelet nor API server restores them.
    world.agent.as_mut().unwrap().kill();
    world.serve_hami(false);
    world.start_agent();
    wait::until("HAMi's totals to be gone", || {
        let node = world.object(&["get", "node", NODE]).unwrap();
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
