//! Flags that say how a cluster reads requests: settings of its extender that cannot be read from any object.

use clap::Args;
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit, Reading};

use crate::connection::Connection;

/// The unit of the predecessor's resource.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Unit {
    /// What one aliyun.com/gpu-mem means in the cluster, GiB or MiB
    #[arg(long, value_name = "UNIT", default_value = "GiB")]
    aliyun_memory_unit: AliyunUnit,
}

/// A cluster, and how it reads requests.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    unit: Unit,
    /// The cluster also serves HAMi's nvidia.com/gpu, gpumem, gpumem-percentage and gpucores
    #[arg(long)]
    hami: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

impl Unit {
    pub(crate) fn of_records(self) -> Dialects {
        of_records(self.aliyun_memory_unit)
    }
}

impl ClusterArgs {
    pub(crate) fn dialects(&self) -> Dialects {
        gpu::read(Reading {
            aliyun: self.unit.aliyun_memory_unit,
            hami: self.hami,
        })
    }
}

/// For reading records. A record proves that gpushare placed the pod, so HAMi's resources need no flag here.
pub(crate) fn of_records(aliyun: AliyunUnit) -> Dialects {
    gpu::read(Reading { aliyun, hami: true })
}
