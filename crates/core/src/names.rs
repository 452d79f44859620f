//! Every name that other programs rely on: resources and annotations. Written once, here.

/// Slots of a card, served by the device plugin; asks for cards in our dialect.
pub const GPU: &str = "gpushare.io/gpu";
/// Memory on each asked card in MiB, our dialect.
pub const GPU_MEM: &str = "gpushare.io/gpu-mem";
/// Memory on one card, Aliyun's dialect; the unit is a setting of the cluster.
pub const ALIYUN_GPU_MEM: &str = "aliyun.com/gpu-mem";
/// Number of cards of a node, as Aliyun's tools read it from the node's status.
pub const ALIYUN_GPU_COUNT: &str = "aliyun.com/gpu-count";

/// Pod annotation: the allocation record, see [`crate::record`].
pub const ALLOCATION: &str = "gpushare.io/allocation";
/// Node annotation: the inventory, see [`crate::inventory`].
pub const CARDS: &str = "gpushare.io/cards";

/// Pod annotations that Aliyun's tools read. We write them and never trust them.
pub mod aliyun {
    pub const IDX: &str = "ALIYUN_COM_GPU_MEM_IDX";
    pub const POD: &str = "ALIYUN_COM_GPU_MEM_POD";
    pub const CONTAINER: &str = "ALIYUN_COM_GPU_MEM_CONTAINER";
    pub const DEV: &str = "ALIYUN_COM_GPU_MEM_DEV";
    pub const ASSIGNED: &str = "ALIYUN_COM_GPU_MEM_ASSIGNED";
    pub const ASSUME_TIME: &str = "ALIYUN_COM_GPU_MEM_ASSUME_TIME";
}
