//! The one place that knows GPUs: their device class and the dialects in which pods ask for them.

pub mod env;

use crate::amounts::DeviceClass;
use crate::dialect::{Dialect, Dialects};
use crate::names;

pub const CLASS: &str = "gpu";
/// Memory in MiB.
pub const MEMORY: usize = 0;
/// Compute in percent of the card.
pub const CORE: usize = 1;
pub const WHOLE_CORE: u64 = 100;

/// 16 TiB: no card is that large, so a larger number is a wrong unit.
const LARGEST_PLAUSIBLE_MIB: u64 = 16 * 1024 * 1024;

/// What one `aliyun.com/gpu-mem` means in this cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AliyunUnit {
    #[default]
    GiB,
    MiB,
}

impl AliyunUnit {
    pub fn mib(self) -> u64 {
        match self {
            Self::GiB => 1024,
            Self::MiB => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::GiB => "GiB",
            Self::MiB => "MiB",
        }
    }
}

impl std::str::FromStr for AliyunUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "GiB" => Ok(Self::GiB),
            "MiB" => Ok(Self::MiB),
            other => Err(format!("unknown memory unit {other:?}: use GiB or MiB")),
        }
    }
}

pub fn class() -> DeviceClass {
    DeviceClass::new(CLASS, &[("memory", "MiB"), ("core", "%")])
        .unwrap_or_else(|| unreachable!("two dimensions are fewer than the limit"))
}

pub fn dialects(aliyun: AliyunUnit) -> Dialects {
    Dialects {
        class: class(),
        dialects: vec![
            Dialect {
                name: "gpushare",
                amount: names::GPU_MEM,
                dimension: MEMORY,
                unit: "MiB",
                per_unit: 1,
                largest_plausible: LARGEST_PLAUSIBLE_MIB,
                slot: Some(names::GPU),
            },
            Dialect {
                name: "aliyun",
                amount: names::ALIYUN_GPU_MEM,
                dimension: MEMORY,
                unit: aliyun.name(),
                per_unit: aliyun.mib(),
                largest_plausible: LARGEST_PLAUSIBLE_MIB,
                slot: None,
            },
        ],
    }
}
