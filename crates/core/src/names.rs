//! Every name that other programs and people rely on: resources, annotations, variables, reasons of Events. Written
//! once, here.
//!
//! `docs/reference/names.md` is generated from this file: the comment of each name says what kind of name it is, and after the
//! first colon what it means.

/// Resource of a container: slots of cards, served by the device plugin; requests cards in our dialect.
pub const GPU: &str = "gpushare.io/gpu";
/// Resource of a container: memory on each requested card in MiB, our dialect.
pub const GPU_MEM: &str = "gpushare.io/gpu-mem";
/// Resource of a container: compute on each requested card in percent, our dialect.
pub const GPU_CORE: &str = "gpushare.io/gpu-core";
/// Resource of a container: memory on each requested card, Aliyun's dialect. The unit is a setting of the cluster.
pub const ALIYUN_GPU_MEM: &str = "aliyun.com/gpu-mem";
/// Resource of a container: how many cards get the same request, Aliyun's dialect. In the status of a Node it is the number of its
/// cards, as Aliyun's tools read it.
pub const ALIYUN_GPU_COUNT: &str = "aliyun.com/gpu-count";

/// Pod annotation that gpushare writes: the allocation record, which names the pod's cards. The extender writes it with the
/// bind, and nobody else can.
pub const ALLOCATION: &str = "gpushare.io/allocation";
/// Node annotation that gpushare writes: the node's cards. Publishers of other device classes add a suffix of their own, such
/// as `gpushare.io/cards.rdma`.
pub const CARDS: &str = "gpushare.io/cards";
/// Node annotation that gpushare writes: what containers still hold of the node's cards although their pods are gone or have
/// ended, for example after a forced deletion. It is removed when the last such container has ended. Publishers of other device
/// classes add a suffix of their own, as they do for the cards.
pub const HELD: &str = "gpushare.io/held";

/// Pod annotation that gpushare writes: when the extender last made the scheduler retry the pod. Only the change matters;
/// nobody reads the value.
pub const WOKEN: &str = "gpushare.io/woken";

/// Pod annotation that gpushare writes: room that is kept for this pod until the pods evicted for it have ended.
pub const PREEMPTION: &str = "gpushare.io/preemption";

/// Condition of a pod: the extender writes it with a new message to void all requests about the pod that it sent earlier. Only the
/// write matters; nobody reads the content.
pub const FENCED: &str = "gpushare.io/Fenced";

/// Label, finalizer, gate: label of a Namespace: the team to which it belongs. Budgets select namespaces by it.
pub const TEAM: &str = "gpushare.io/team";
/// Label, finalizer, gate: label of a Namespace: with `allowed`, its containers may name cards that they do not request, as device
/// plugins and monitoring do.
pub const UNBOOKED_CARDS: &str = "gpushare.io/unbooked-cards";
/// Label, finalizer, gate: finalizer that keeps a pod's object until its end is charged. The webhook adds it, and the timekeeper
/// removes it.
pub const METERING: &str = "gpushare.io/metering";

/// Pod annotation that gpushare writes: when the pod will be evicted because its budget is used up, in RFC 3339. Only the
/// timekeeper can write it.
pub const EVICT_AT: &str = "gpushare.io/evict-at";
/// Label, finalizer, gate: audience of tokens for the budget API.
pub const TIMEKEEPER_AUDIENCE: &str = "gpushare-timekeeper";

/// Priority class: for pods whose budget pays for them; they rank as ordinary pods.
pub const IN_BUDGET: &str = "gpushare-in-budget";
/// Priority class: for pods that are created while their budget is used up; they rank below all ordinary pods and run while nobody
/// else needs the card.
pub const OVER_BUDGET: &str = "gpushare-over-budget";
/// Priority class: prefix of the names that only gpushare assigns.
pub const OUR_CLASSES: &str = "gpushare-";

/// Pod annotation that gpushare writes: the name of the pod's budget, which is used up. The pod ranks below all pods that are
/// within their budget. Only the timekeeper can write it.
pub const OVER_BUDGET_MARK: &str = "gpushare.io/over-budget";
/// Pod annotation that gpushare writes: the pod was created over budget, so its class remains low, and its budget has something
/// left again. The pod ranks as an ordinary pod. Only the timekeeper can write it.
pub const RESTORED_MARK: &str = "gpushare.io/back-in-budget";

/// Label, finalizer, gate: scheduling gate of a pod that waits until its budget has something left again.
pub const BUDGET_GATE: &str = "gpushare.io/budget";

/// Pod annotation that users write: `"true"` requests a sidecar that reports the budget to the application.
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
    /// Annotation for predecessors' tools: when the cards were chosen, in nanoseconds, Aliyun.
    pub const ASSUME_TIME: &str = "ALIYUN_COM_GPU_MEM_ASSUME_TIME";
    /// Annotation for predecessors' tools: Aliyun's newer form, for several cards or containers. `{"0":{"1":3}}` is container 0, card 1,
    /// 3 units.
    pub const ALLOCATION: &str = "scheduler.framework.gpushare.allocation";
}

/// Tencent's dialect.
pub mod tencent {
    /// Resource of a container: percent of a card, or a multiple of 100 for whole cards, Tencent's dialect.
    pub const CORE: &str = "tencent.com/vcuda-core";
    /// Resource of a container: memory in blocks of 256 MiB, Tencent's dialect.
    pub const MEMORY: &str = "tencent.com/vcuda-memory";
    /// Annotation for predecessors' tools: followed by a container's number, the indexes of its cards, Tencent.
    pub const PREDICATE_GPU_IDX: &str = "tencent.com/predicate-gpu-idx-";
    /// Annotation for predecessors' tools: the node, Tencent.
    pub const PREDICATE_NODE: &str = "tencent.com/predicate-node";
    /// Annotation for predecessors' tools: when the cards were chosen, Tencent.
    pub const PREDICATE_TIME: &str = "tencent.com/predicate-time";
    /// Annotation for predecessors' tools: always `"true"`, Tencent.
    pub const GPU_ASSIGNED: &str = "tencent.com/gpu-assigned";
}

/// HAMi's dialect.
pub mod hami {
    /// Resource of a container: cards, HAMi's dialect (with `--hami`).
    pub const GPU: &str = "nvidia.com/gpu";
    /// Resource of a container: memory on each requested card in MiB, HAMi's dialect (with `--hami`).
    pub const MEMORY: &str = "nvidia.com/gpumem";
    /// Resource of a container: memory on each requested card in percent of the card, HAMi's dialect (with `--hami`).
    pub const MEMORY_PERCENT: &str = "nvidia.com/gpumem-percentage";
    /// Resource of a container: compute on each requested card in percent, HAMi's dialect (with `--hami`).
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
    /// Variable of a container: UUIDs of its cards, separated by commas, as NVIDIA's container tools read it.
    pub const VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
    /// Variable of a container: the same.
    pub const CARDS: &str = "GPUSHARE_CARDS";
    /// Variable of a container: how much memory it may use on each card: one number, or one for each card if they differ.
    pub const MEMORY_MIB: &str = "GPUSHARE_MEMORY_MIB";
    /// Variable of a container: the same for compute; not set if the container requests none.
    pub const CORE_PERCENT: &str = "GPUSHARE_CORE_PERCENT";
    /// Variable of a container: followed by a card's number, its memory, such as `3000m`; only for HAMi's dialect.
    pub const HAMI_MEMORY_LIMIT: &str = "CUDA_DEVICE_MEMORY_LIMIT_";
    /// Variable of a container: percent of compute, `0` for no limit; only for HAMi's dialect.
    pub const HAMI_SM_LIMIT: &str = "CUDA_DEVICE_SM_LIMIT";
}

/// Reasons of Events.
pub mod event {
    /// Event on a pod: the request is invalid; the message names container, field, value and fix. Free room does not help. From the
    /// extender.
    pub const INVALID_REQUEST: &str = "InvalidGpuRequest";
    /// Event on a pod: no node that kube-scheduler offered can take the pod now; the message says why. From the extender.
    pub const NO_CARD_FITS: &str = "NoCardFits";
    /// Event on a pod: pods of lower rank are evicted for this pod; it starts when they have ended. From the extender.
    pub const PREEMPTING: &str = "Preempting";
    /// Event on a pod: the pod was evicted because a pod of higher rank needs its card. From the extender.
    pub const PREEMPTED: &str = "Preempted";
    /// Event on a pod: other pods could make room, but their disruption budgets protect them. From the extender.
    pub const PREEMPTION_BLOCKED: &str = "PreemptionBlocked";
    /// Event on a pod: room was claimed for the pod, but was not free or not used in time; the extender looks for other room. From the
    /// extender.
    pub const PREEMPTION_GIVEN_UP: &str = "PreemptionGivenUp";
    /// Event on a pod: the pod's budget is used up; the message says what happens to the pod, and when. From the timekeeper.
    pub const OVER_BUDGET: &str = "OverBudget";
    /// Event on a pod: the pod's budget has something left again. From the timekeeper.
    pub const BACK_IN_BUDGET: &str = "BackInBudget";
    /// Event on a pod: the pod was evicted because its budget is used up and its grace period is over. From the timekeeper.
    pub const BUDGET_EVICTION: &str = "BudgetEviction";
    /// Event on a pod: the grace period is over, but a disruption budget protects the pod. From the timekeeper.
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
    /// Condition of a GpuBudget: the budget is valid and charged.
    pub const READY: &str = "Ready";
    /// Reason of a condition: of `Ready`; another budget selects one of its namespaces equally specifically.
    pub const AMBIGUOUS: &str = "AmbiguousNamespaces";
    /// Reason of a condition: of `Ready`; no budget has the name in `spec.parent`.
    pub const PARENT_MISSING: &str = "ParentMissing";
    /// Reason of a condition: of `Ready`; the budget is its own ancestor.
    pub const PARENT_CYCLE: &str = "ParentCycle";
    /// Reason of a condition: of `Ready`; the message says which part of the spec cannot be used.
    pub const INVALID: &str = "InvalidSpec";
    /// Reason of a condition: of `Ready`; the ledger is damaged, and nothing is charged until a backup is restored.
    pub const LEDGER_CORRUPTED: &str = "LedgerCorrupted";
    /// Reason of a condition: of `Ready`; the ledger failed several times or does not answer, and nothing is charged meanwhile.
    pub const LEDGER_UNAVAILABLE: &str = "LedgerUnavailable";
    /// Reason of a condition: of `Ready`; the budget is charged.
    pub const CHARGED: &str = "Charged";
    /// Condition of a GpuBudget: nothing remains. The transition time says since when, by the timekeeper's clock.
    pub const EXHAUSTED: &str = "Exhausted";
    /// Reason of a condition: of `Exhausted`; nothing remains of this budget itself.
    pub const NOTHING_REMAINS: &str = "NothingRemains";
    /// Reason of a condition: of `Exhausted`; nothing remains of an ancestor of this budget.
    pub const ANCESTOR_EXHAUSTED: &str = "AncestorExhausted";
    /// Reason of a condition: of `Exhausted`; something remains.
    pub const WITHIN_BUDGET: &str = "WithinBudget";
}
