//! Every name that other programs rely on: resources and annotations. Written once, here.

/// Slots of a card, served by the device plugin; asks for cards in our dialect.
pub const GPU: &str = "gpushare.io/gpu";
/// Memory on each asked card in MiB, our dialect.
pub const GPU_MEM: &str = "gpushare.io/gpu-mem";
/// Compute on each asked card in percent, our dialect.
pub const GPU_CORE: &str = "gpushare.io/gpu-core";
/// Memory on each asked card, Aliyun's dialect; the unit is a setting of the cluster.
pub const ALIYUN_GPU_MEM: &str = "aliyun.com/gpu-mem";
/// Number of cards: of a node in its status, as Aliyun's tools read it; in a pod, how many of them get
/// the same request.
pub const ALIYUN_GPU_COUNT: &str = "aliyun.com/gpu-count";

/// Pod annotation: the allocation record, see [`crate::record`].
pub const ALLOCATION: &str = "gpushare.io/allocation";
/// Node annotation: the inventory, see [`crate::inventory`]. Publishers of other device classes use it
/// with a suffix of their own, such as `gpushare.io/cards.rdma`.
pub const CARDS: &str = "gpushare.io/cards";

/// Pod annotation: when the extender last made the scheduler try the pod again. The change alone has an
/// effect; nobody reads the value.
pub const WOKEN: &str = "gpushare.io/woken";

/// Pod annotation: room is kept for this pod until others have gone, see [`crate::preempt::ClaimRecord`].
pub const PREEMPTION: &str = "gpushare.io/preemption";

/// Namespace label: the team to which it belongs, as budgets select it.
pub const TEAM: &str = "gpushare.io/team";
/// Pod finalizer: the pod's end is not yet charged, so its object must stay. The webhook sets it, the
/// timekeeper takes it off.
pub const METERING: &str = "gpushare.io/metering";

/// Pod annotation: when the pod will be evicted because its budget is used up, as RFC 3339. The timekeeper
/// writes it.
pub const EVICT_AT: &str = "gpushare.io/evict-at";
/// The audience of tokens for the timekeeper's API.
pub const TIMEKEEPER_AUDIENCE: &str = "gpushare-timekeeper";

/// Priority classes. Ordinary for pods whose budget pays for them, and below all ordinary pods for the
/// others, which run while nobody else needs the card.
pub const IN_BUDGET: &str = "gpushare-in-budget";
pub const OVER_BUDGET: &str = "gpushare-over-budget";
/// Classes of this prefix are given by us, not chosen by users.
pub const OUR_CLASSES: &str = "gpushare-";

/// Pod annotation: the pod's budget, named here, has nothing left. Such a pod ranks below all that are within
/// budget. Written by the timekeeper alone, as [`RESTORED_MARK`] and [`EVICT_AT`].
pub const OVER_BUDGET_MARK: &str = "gpushare.io/over-budget";
/// Pod annotation: the pod was created over budget, so that its class is low for good, and is within budget
/// again: it ranks as an ordinary pod.
pub const RESTORED_MARK: &str = "gpushare.io/back-in-budget";

/// Scheduling gate of a pod that waits until its budget has something again.
pub const BUDGET_GATE: &str = "gpushare.io/budget";

/// Pod annotation: `"true"` asks for a sidecar that tells the application how its budget stands.
pub const BUDGET_SIDECAR: &str = "gpushare.io/budget-sidecar";

/// Pod annotations that choose among cards.
pub const POLICY: &str = "gpushare.io/policy";
pub const CARD_MODELS: &str = "gpushare.io/card-models";
pub const EXCLUDE_CARD_MODELS: &str = "gpushare.io/exclude-card-models";
pub const CARD_IDS: &str = "gpushare.io/card-ids";
pub const EXCLUDE_CARD_IDS: &str = "gpushare.io/exclude-card-ids";

/// Pod annotations that Aliyun's tools read. We write them and never trust them.
pub mod aliyun {
    pub const IDX: &str = "ALIYUN_COM_GPU_MEM_IDX";
    pub const POD: &str = "ALIYUN_COM_GPU_MEM_POD";
    pub const CONTAINER: &str = "ALIYUN_COM_GPU_MEM_CONTAINER";
    pub const DEV: &str = "ALIYUN_COM_GPU_MEM_DEV";
    pub const ASSIGNED: &str = "ALIYUN_COM_GPU_MEM_ASSIGNED";
    pub const ASSUME_TIME: &str = "ALIYUN_COM_GPU_MEM_ASSUME_TIME";
    /// Their newer form, for several cards or containers: `{"0":{"1":3}}` is container 0, card 1, 3 units.
    pub const ALLOCATION: &str = "scheduler.framework.gpushare.allocation";
}

/// Tencent's dialect.
pub mod tencent {
    /// Percent of a card, or full hundreds for whole cards.
    pub const CORE: &str = "tencent.com/vcuda-core";
    /// Memory in blocks of 256 MiB.
    pub const MEMORY: &str = "tencent.com/vcuda-memory";
    /// Written for their tools, never trusted: `predicate-gpu-idx-<container>` lists card indexes.
    pub const PREDICATE_GPU_IDX: &str = "tencent.com/predicate-gpu-idx-";
    pub const PREDICATE_NODE: &str = "tencent.com/predicate-node";
    pub const PREDICATE_TIME: &str = "tencent.com/predicate-time";
    pub const GPU_ASSIGNED: &str = "tencent.com/gpu-assigned";
}

/// HAMi's dialect.
pub mod hami {
    pub const GPU: &str = "nvidia.com/gpu";
    pub const MEMORY: &str = "nvidia.com/gpumem";
    pub const MEMORY_PERCENT: &str = "nvidia.com/gpumem-percentage";
    pub const CORES: &str = "nvidia.com/gpucores";
    pub const USE_TYPE: &str = "nvidia.com/use-gputype";
    pub const NOUSE_TYPE: &str = "nvidia.com/nouse-gputype";
    pub const USE_UUID: &str = "nvidia.com/use-gpuuuid";
    pub const NOUSE_UUID: &str = "nvidia.com/nouse-gpuuuid";
    /// Written for their tools, never trusted.
    pub const VGPU_NODE: &str = "hami.io/vgpu-node";
    pub const DEVICES_ALLOCATED: &str = "hami.io/vgpu-devices-allocated";
}
