//! Every name that other programs and people rely on: resources, annotations, variables, reasons of Events. Written
//! once, here.
//!
//! `docs/reference/names.md` is generated from this file: the comment of each name says what kind of name it is, and after the
//! first colon what it means.

/// Resource of a container: slots of cards, served by the device plugin; asks for cards in our dialect.
pub const GPU: &str = "gpushare.io/gpu";
/// Resource of a container: memory on each asked card in MiB, our dialect.
pub const GPU_MEM: &str = "gpushare.io/gpu-mem";
/// Resource of a container: compute on each asked card in percent, our dialect.
pub const GPU_CORE: &str = "gpushare.io/gpu-core";
/// Resource of a container: memory on each asked card, Aliyun's dialect; the unit is a setting of the cluster.
pub const ALIYUN_GPU_MEM: &str = "aliyun.com/gpu-mem";
/// Resource of a container: how many cards get the same request, Aliyun's dialect. In the status of a Node it is the number of its
/// cards, as Aliyun's tools read it.
pub const ALIYUN_GPU_COUNT: &str = "aliyun.com/gpu-count";

/// Pod annotation that gpushare writes: the allocation record, by which cards were decided. It stands on a pod from its bind on,
/// and nobody but the extender can write it.
pub const ALLOCATION: &str = "gpushare.io/allocation";
/// Node annotation that gpushare writes: the node's cards. Publishers of other device classes use it with a suffix of their
/// own, such as `gpushare.io/cards.rdma`.
pub const CARDS: &str = "gpushare.io/cards";
/// Node annotation that gpushare writes: what containers still hold of the node's cards although their pods are over, such as
/// after a forced deletion. It is there only while there are such containers. Publishers of other device classes use it with a
/// suffix of their own, as they do with the cards.
pub const HELD: &str = "gpushare.io/held";

/// Pod annotation that gpushare writes: when the extender last made the scheduler try the pod again. The change alone has an
/// effect; nobody reads the value.
pub const WOKEN: &str = "gpushare.io/woken";

/// Pod annotation that gpushare writes: room is kept for this pod until others have gone.
pub const PREEMPTION: &str = "gpushare.io/preemption";

/// Condition of a pod: requests of gpushare about it that were sent before and not answered are void. The extender sets it with a new
/// message each time. Its content means nothing; only the write matters.
pub const FENCED: &str = "gpushare.io/Fenced";

/// Label, finalizer, gate: label of a Namespace, the team to which it belongs, as budgets select it.
pub const TEAM: &str = "gpushare.io/team";
/// Label, finalizer, gate: label of a Namespace, `allowed` lets its containers name cards that they do not ask for, as device
/// plugins and monitoring do.
pub const UNBOOKED_CARDS: &str = "gpushare.io/unbooked-cards";
/// Label, finalizer, gate: finalizer of a pod whose end is not yet charged, so that its object must stay. The webhook sets it, the
/// timekeeper takes it off.
pub const METERING: &str = "gpushare.io/metering";

/// Pod annotation that gpushare writes: when the pod will be evicted because its budget is used up, as RFC 3339. The timekeeper
/// writes it.
pub const EVICT_AT: &str = "gpushare.io/evict-at";
/// Label, finalizer, gate: audience of tokens for the timekeeper's API.
pub const TIMEKEEPER_AUDIENCE: &str = "gpushare-timekeeper";

/// Priority class: of pods whose budget pays for them; as ordinary pods.
pub const IN_BUDGET: &str = "gpushare-in-budget";
/// Priority class: of pods that are created while their budget is used up; below all ordinary pods, so that they run while nobody
/// else needs the card.
pub const OVER_BUDGET: &str = "gpushare-over-budget";
/// Priority class: the beginning of the names that are given by gpushare and not chosen by users.
pub const OUR_CLASSES: &str = "gpushare-";

/// Pod annotation that gpushare writes: the pod's budget, named here, has nothing left. Such a pod ranks below all that are within
/// budget. The timekeeper alone can write it.
pub const OVER_BUDGET_MARK: &str = "gpushare.io/over-budget";
/// Pod annotation that gpushare writes: the pod was created over budget, so that its class is low for good, and is within budget
/// again; it ranks as an ordinary pod. The timekeeper alone can write it.
pub const RESTORED_MARK: &str = "gpushare.io/back-in-budget";

/// Label, finalizer, gate: scheduling gate of a pod that waits until its budget has something again.
pub const BUDGET_GATE: &str = "gpushare.io/budget";

/// Pod annotation that users write: `"true"` asks for a sidecar that tells the application how its budget stands.
pub const BUDGET_SIDECAR: &str = "gpushare.io/budget-sidecar";

/// Pod annotation that users write: how to choose among the cards that fit.
pub const POLICY: &str = "gpushare.io/policy";
/// Pod annotation that users write: only cards of these models.
pub const CARD_MODELS: &str = "gpushare.io/card-models";
/// Pod annotation that users write: no cards of these models.
pub const EXCLUDE_CARD_MODELS: &str = "gpushare.io/exclude-card-models";
/// Pod annotation that users write: only these cards, by UUID.
pub const CARD_IDS: &str = "gpushare.io/card-ids";
/// Pod annotation that users write: none of these cards.
pub const EXCLUDE_CARD_IDS: &str = "gpushare.io/exclude-card-ids";

/// What Aliyun's tools read. We write it and never trust it; the first ones are also variables of the containers.
pub mod aliyun {
    /// Annotation for predecessors' tools: the card's index, Aliyun.
    pub const IDX: &str = "ALIYUN_COM_GPU_MEM_IDX";
    /// Annotation for predecessors' tools: the pod's share in units, Aliyun.
    pub const POD: &str = "ALIYUN_COM_GPU_MEM_POD";
    /// Variable of a container: its share in units, Aliyun.
    pub const CONTAINER: &str = "ALIYUN_COM_GPU_MEM_CONTAINER";
    /// Annotation for predecessors' tools: the card's memory in units, Aliyun.
    pub const DEV: &str = "ALIYUN_COM_GPU_MEM_DEV";
    /// Annotation for predecessors' tools: always `"true"`, Aliyun.
    pub const ASSIGNED: &str = "ALIYUN_COM_GPU_MEM_ASSIGNED";
    /// Annotation for predecessors' tools: when it was decided, in nanoseconds, Aliyun.
    pub const ASSUME_TIME: &str = "ALIYUN_COM_GPU_MEM_ASSUME_TIME";
    /// Annotation for predecessors' tools: Aliyun's newer form, for several cards or containers. `{"0":{"1":3}}` is container 0, card 1,
    /// 3 units.
    pub const ALLOCATION: &str = "scheduler.framework.gpushare.allocation";
}

/// Tencent's dialect.
pub mod tencent {
    /// Resource of a container: percent of a card, or full hundreds for whole cards, Tencent's dialect.
    pub const CORE: &str = "tencent.com/vcuda-core";
    /// Resource of a container: memory in blocks of 256 MiB, Tencent's dialect.
    pub const MEMORY: &str = "tencent.com/vcuda-memory";
    /// Annotation for predecessors' tools: followed by a container's number, the indexes of its cards, Tencent.
    pub const PREDICATE_GPU_IDX: &str = "tencent.com/predicate-gpu-idx-";
    /// Annotation for predecessors' tools: the node, Tencent.
    pub const PREDICATE_NODE: &str = "tencent.com/predicate-node";
    /// Annotation for predecessors' tools: when it was decided, Tencent.
    pub const PREDICATE_TIME: &str = "tencent.com/predicate-time";
    /// Annotation for predecessors' tools: always `"true"`, Tencent.
    pub const GPU_ASSIGNED: &str = "tencent.com/gpu-assigned";
}

/// HAMi's dialect.
pub mod hami {
    /// Resource of a container: cards, HAMi's dialect (with `--hami`).
    pub const GPU: &str = "nvidia.com/gpu";
    /// Resource of a container: memory on each asked card in MiB, HAMi's dialect (with `--hami`).
    pub const MEMORY: &str = "nvidia.com/gpumem";
    /// Resource of a container: memory on each asked card in percent of it, HAMi's dialect (with `--hami`).
    pub const MEMORY_PERCENT: &str = "nvidia.com/gpumem-percentage";
    /// Resource of a container: compute on each asked card in percent, HAMi's dialect (with `--hami`).
    pub const CORES: &str = "nvidia.com/gpucores";
    /// Pod annotation that users write: only cards whose model contains one of these, HAMi's (with `--hami`).
    pub const USE_TYPE: &str = "nvidia.com/use-gputype";
    /// Pod annotation that users write: no cards whose model contains one of these, HAMi's (with `--hami`).
    pub const NOUSE_TYPE: &str = "nvidia.com/nouse-gputype";
    /// Pod annotation that users write: only these cards, HAMi's (with `--hami`).
    pub const USE_UUID: &str = "nvidia.com/use-gpuuuid";
    /// Pod annotation that users write: none of these cards, HAMi's (with `--hami`).
    pub const NOUSE_UUID: &str = "nvidia.com/nouse-gpuuuid";
    /// Annotation for predecessors' tools: the node, HAMi.
    pub const VGPU_NODE: &str = "hami.io/vgpu-node";
    /// Annotation for predecessors' tools: the cards and shares of each container, HAMi.
    pub const DEVICES_ALLOCATED: &str = "hami.io/vgpu-devices-allocated";
}

/// What containers with cards find in their environment.
pub mod variable {
    /// Variable of a container: UUIDs of its cards, with commas between; as NVIDIA's container tools read it.
    pub const VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
    /// Variable of a container: the same.
    pub const CARDS: &str = "GPUSHARE_CARDS";
    /// Variable of a container: what it may use of each card's memory; one number, or one for each card where they differ.
    pub const MEMORY_MIB: &str = "GPUSHARE_MEMORY_MIB";
    /// Variable of a container: the same for compute; left out where none was asked for.
    pub const CORE_PERCENT: &str = "GPUSHARE_CORE_PERCENT";
    /// Variable of a container: followed by a card's number, its memory, such as `3000m`; only for HAMi's dialect.
    pub const HAMI_MEMORY_LIMIT: &str = "CUDA_DEVICE_MEMORY_LIMIT_";
    /// Variable of a container: percent of compute, `0` for no limit; only for HAMi's dialect.
    pub const HAMI_SM_LIMIT: &str = "CUDA_DEVICE_SM_LIMIT";
}

/// Reasons of Events.
pub mod event {
    /// Event on a pod: the request is not valid; the message names container, field, value and fix. No room will help. From the
    /// extender.
    pub const INVALID_REQUEST: &str = "InvalidGpuRequest";
    /// Event on a pod: no node that kube-scheduler offered can take the pod now; the message says why. From the extender.
    pub const NO_CARD_FITS: &str = "NoCardFits";
    /// Event on a pod: pods of lower rank are evicted for this pod; it starts when they have ended. From the extender.
    pub const PREEMPTING: &str = "Preempting";
    /// Event on a pod: it was evicted because a pod of higher rank needs its card. From the extender.
    pub const PREEMPTED: &str = "Preempted";
    /// Event on a pod: others could make room, but their disruption budgets do not let them go. From the extender.
    pub const PREEMPTION_BLOCKED: &str = "PreemptionBlocked";
    /// Event on a pod: room was claimed for it and did not become free, or was not used, in time; others are looked for. From the
    /// extender.
    pub const PREEMPTION_GIVEN_UP: &str = "PreemptionGivenUp";
    /// Event on a pod: its budget is used up; what happens to the pod, and when. From the timekeeper.
    pub const OVER_BUDGET: &str = "OverBudget";
    /// Event on a pod: its budget has something left again. From the timekeeper.
    pub const BACK_IN_BUDGET: &str = "BackInBudget";
    /// Event on a pod: evicted, because its budget is used up and the grace is over. From the timekeeper.
    pub const BUDGET_EVICTION: &str = "BudgetEviction";
    /// Event on a pod: it is to be evicted for its budget, and a disruption budget keeps it. From the timekeeper.
    pub const BUDGET_EVICTION_BLOCKED: &str = "BudgetEvictionBlocked";
    /// Event on a GpuBudget: nothing remains. From the timekeeper.
    pub const EXHAUSTED: &str = "Exhausted";
    /// Event on a GpuBudget: something remains again. From the timekeeper.
    pub const RESTORED: &str = "Restored";
    /// Event on a GpuBudget: a new period has begun. From the timekeeper.
    pub const PERIOD_OPENED: &str = "PeriodOpened";
}

/// Types and reasons of the conditions in a budget's status.
pub mod condition {
    /// Condition of a GpuBudget: it is understood and charged.
    pub const READY: &str = "Ready";
    /// Reason of a condition: of `Ready`; another budget selects one of its namespaces with the same right.
    pub const AMBIGUOUS: &str = "AmbiguousNamespaces";
    /// Reason of a condition: of `Ready`; there is no budget of the name in `spec.parent`.
    pub const PARENT_MISSING: &str = "ParentMissing";
    /// Reason of a condition: of `Ready`; the budget is, by its parents, a part of itself.
    pub const PARENT_CYCLE: &str = "ParentCycle";
    /// Reason of a condition: of `Ready`; the message says what in the spec cannot be used.
    pub const INVALID: &str = "InvalidSpec";
    /// Reason of a condition: of `Ready`; the ledger is damaged, and nothing is charged until a backup was restored.
    pub const LEDGER_CORRUPTED: &str = "LedgerCorrupted";
    /// Reason of a condition: of `Ready`; the ledger has failed several times or does not answer, and nothing is charged meanwhile.
    pub const LEDGER_UNAVAILABLE: &str = "LedgerUnavailable";
    /// Reason of a condition: of `Ready`; all is well.
    pub const CHARGED: &str = "Charged";
    /// Condition of a GpuBudget: nothing remains. Its transition is since when, by the timekeeper's clock.
    pub const EXHAUSTED: &str = "Exhausted";
    /// Reason of a condition: of `Exhausted`; of this budget itself nothing remains.
    pub const NOTHING_REMAINS: &str = "NothingRemains";
    /// Reason of a condition: of `Exhausted`; of a budget that this one is a part of nothing remains.
    pub const ANCESTOR_EXHAUSTED: &str = "AncestorExhausted";
    /// Reason of a condition: of `Exhausted`; something remains.
    pub const WITHIN_BUDGET: &str = "WithinBudget";
}
