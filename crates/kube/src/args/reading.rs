//! How this cluster interprets requests; every process must interpret them the same way.

use std::path::PathBuf;

use clap::Args;
use gpushare_core::devices::{Devices, DevicesError};
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit, Reading};
use thiserror::Error;

#[derive(Args, Clone, Debug)]
pub struct ReadingArgs {
    /// What one aliyun.com/gpu-mem means in this cluster: GiB or MiB
    #[arg(long, env = "GPUSHARE_ALIYUN_MEMORY_UNIT", default_value = "GiB")]
    pub aliyun_memory_unit: AliyunUnit,

    /// Also serve HAMi's nvidia.com/gpu, gpumem, gpumem-percentage and gpucores. Only where no other plugin
    /// serves nvidia.com/gpu
    #[arg(long, env = "GPUSHARE_HAMI")]
    pub hami: bool,

    /// A YAML file with additional device classes, such as RDMA cards shared by bandwidth
    #[arg(long, env = "GPUSHARE_DEVICES", value_name = "FILE")]
    pub devices: Option<PathBuf>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReadingError {
    #[error("--devices: cannot use {}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("--devices: {}: {reason}", path.display())]
    Devices { path: PathBuf, reason: DevicesError },
}

impl ReadingArgs {
    /// Everything that pods may ask for.
    pub fn dialects(&self) -> Result<Dialects, ReadingError> {
        let gpus = gpu::read(Reading {
            aliyun: self.aliyun_memory_unit,
            hami: self.hami,
        });
        let Some(path) = &self.devices else {
            return Ok(gpus);
        };
        let path = path.clone();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                let reason = error.to_string();
                return Err(ReadingError::Unreadable { path, reason });
            }
        };
        match serde_saphyr::from_str::<Devices>(&text) {
            Ok(devices) => devices
                .add_to(gpus)
                .map_err(|reason| ReadingError::Devices { path, reason }),
            Err(error) => Err(ReadingError::Unreadable {
                path,
                reason: error.to_string(),
            }),
        }
    }
}
