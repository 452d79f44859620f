//! Manifests of every dialect run, and their containers learn their cards in the same dialect.

use crate::support::{act, log, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_of_each_dialect_runs_and_sees_its_card() {
    let sandbox = start().await;
    for (manifest, pod, expected) in [
        (
            include_str!("../manifests/gpushare.yaml"),
            "ours",
            &["GPUSHARE_MEMORY_MIB=3072"][..],
        ),
        (
            include_str!("../manifests/aliyun.yaml"),
            "aliyun-0",
            &["ALIYUN_COM_GPU_MEM_CONTAINER=3", "ALIYUN_COM_GPU_MEM_POD=3"],
        ),
        (
            include_str!("../manifests/tencent.yaml"),
            "tencent",
            &["GPUSHARE_MEMORY_MIB=2560", "GPUSHARE_CORE_PERCENT=50"],
        ),
        (
            include_str!("../manifests/hami.yaml"),
            "hami",
            &[
                "CUDA_DEVICE_MEMORY_LIMIT_0=3000m",
                "CUDA_DEVICE_SM_LIMIT=30",
            ],
        ),
        (
            include_str!("../manifests/tencent-whole.yaml"),
            "tencent-whole",
            &["GPUSHARE_CORE_PERCENT=100"],
        ),
        (
            include_str!("../manifests/hami-part.yaml"),
            "hami-part",
            &[
                "CUDA_DEVICE_MEMORY_LIMIT_0=40960m",
                "CUDA_DEVICE_MEMORY_LIMIT_1=40960m",
                "CUDA_DEVICE_SM_LIMIT=30",
            ],
        ),
    ] {
        act(&sandbox, manifest, &[&format!("running: default/{pod}")]).await;
        let log = log(&sandbox, "default", pod).await;
        let cards = log
            .lines()
            .find_map(|line| line.strip_prefix("NVIDIA_VISIBLE_DEVICES="));
        let cards = cards.unwrap_or_else(|| panic!("{pod}: {log}"));
        assert!(
            cards.split(',').all(|card| card.starts_with("GPU-")),
            "{log}"
        );
        for line in expected {
            assert!(
                log.lines().any(|other| other == *line),
                "{pod}: {line} in {log}"
            );
        }
    }
    sandbox.stop().await.unwrap();
}
