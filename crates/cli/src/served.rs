//! Flags that say how a cluster reads requests: settings of its extender that cannot be read from any object.

use clap::Args;
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit, Reading};

#[derive(Args, Clone, Debug)]
pub(crate) struct Served {
    /// What one aliyun.com/gpu-mem means in the cluster, GiB or MiB
    #[arg(long, value_name = "UNIT", default_value = "GiB")]
    aliyun_memory_unit: AliyunUnit,
    /// The cluster also serves HAMi's nvidia.com/gpu, gpumem, gpumem-percentage and gpucores
    #[arg(long)]
    hami: bool,
}

impl Served {
    pub(crate) fn dialects(&self) -> Dialects {
        gpu::read(Reading {
            aliyun: self.aliyun_memory_unit,
            hami: self.hami,
        })
    }
}
