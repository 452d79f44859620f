//! The only module that knows about GPUs: their device class and the dialects in which pods ask for them.

pub mod env;

use std::sync::Arc;

use crate::amounts::{Classes, DeviceClass};
use crate::dialect::{Chooser, Chooses, Count, Dialect, Dialects, PartDefault, PartRule, Scale};
use crate::names::{self, hami, tencent};

pub const CLASS: &str = "gpu";
/// Memory in MiB.
pub const MEMORY: usize = 0;
/// Compute in percent of the card.
pub const CORE: usize = 1;
pub const WHOLE_CORE: u64 = 100;

/// Names of dialects, as stored in a request (`ContainerAsk::dialect`).
pub const OURS: &str = "gpushare";
pub const ALIYUN: &str = "aliyun";
pub const TENCENT: &str = "tencent";
pub const HAMI: &str = "hami";

/// The packing policies that a single pod may ask for.
pub const POLICIES: [&str; 4] = ["binpack", "spread", "best-fit", "first-fit"];

/// One block of Tencent's memory resource.
pub const TENCENT_BLOCK_MIB: u64 = 256;

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

/// How a cluster reads requests for GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub aliyun: AliyunUnit,
    /// Whether gpushare serves `nvidia.com/gpu` and its companions; otherwise they belong to another plugin.
    pub hami: bool,
}

pub fn class() -> DeviceClass {
    DeviceClass::new(CLASS, &[("memory", "MiB"), ("core", "%")])
        .unwrap_or_else(|| unreachable!("two dimensions are fewer than the limit"))
}

pub fn classes() -> Classes {
    [class()].into_iter().collect()
}

/// All dialects except HAMi's.
pub fn dialects(aliyun: AliyunUnit) -> Dialects {
    read(Reading {
        aliyun,
        hami: false,
    })
}

pub fn read(reading: Reading) -> Dialects {
    let mut dialects = vec![ours(), aliyun(reading.aliyun), tencent()];
    let mut choosers = vec![
        chooser(names::POLICY, Chooses::Policy),
        chooser(names::CARD_MODELS, Chooses::Models),
        chooser(names::EXCLUDE_CARD_MODELS, Chooses::NotModels),
        chooser(names::CARD_IDS, Chooses::Ids),
        chooser(names::EXCLUDE_CARD_IDS, Chooses::NotIds),
    ];
    if reading.hami {
        dialects.push(hami());
        choosers.extend([
            chooser(hami::USE_TYPE, Chooses::ModelsLike),
            chooser(hami::NOUSE_TYPE, Chooses::NotModelsLike),
            chooser(hami::USE_UUID, Chooses::Ids),
            chooser(hami::NOUSE_UUID, Chooses::NotIds),
        ]);
    }
    Dialects {
        classes: classes(),
        dialects,
        choosers,
        policies: POLICIES.map(Into::into).into(),
    }
}

fn ours() -> Dialect {
    dialect(
        OURS,
        Some((names::GPU, true, true)),
        vec![
            part(names::GPU_MEM, MEMORY, mib("MiB", 1), PartDefault::Refused),
            part(names::GPU_CORE, CORE, percents(), PartDefault::Nothing),
        ],
    )
}

fn aliyun(unit: AliyunUnit) -> Dialect {
    // The card count alone requests nothing: the kubelet would never call us for such a container.
    dialect(
        ALIYUN,
        Some((names::ALIYUN_GPU_COUNT, false, false)),
        vec![part(
            names::ALIYUN_GPU_MEM,
            MEMORY,
            mib(unit.name(), unit.mib()),
            PartDefault::Refused,
        )],
    )
}

fn tencent() -> Dialect {
    dialect(
        TENCENT,
        None,
        vec![
            part(tencent::CORE, CORE, Scale::Hundreds, PartDefault::Refused),
            part(
                tencent::MEMORY,
                MEMORY,
                mib("blocks of 256 MiB", TENCENT_BLOCK_MIB),
                PartDefault::Refused,
            ),
        ],
    )
}

fn hami() -> Dialect {
    dialect(
        HAMI,
        Some((hami::GPU, true, true)),
        vec![
            part(hami::MEMORY, MEMORY, mib("MiB", 1), PartDefault::All),
            part(
                hami::MEMORY_PERCENT,
                MEMORY,
                Scale::Percent,
                PartDefault::All,
            ),
            part(hami::CORES, CORE, percents(), PartDefault::Nothing),
        ],
    )
}

fn dialect(name: &str, count: Option<(&str, bool, bool)>, parts: Vec<PartRule>) -> Dialect {
    Dialect {
        name: name.into(),
        class: CLASS.into(),
        count: count.map(|(resource, required, whole_alone)| Count {
            resource: resource.into(),
            required,
            whole_alone,
        }),
        parts,
        zero_is_absent: name == HAMI,
    }
}

fn part(resource: &str, dimension: usize, scale: Scale, absent: PartDefault) -> PartRule {
    PartRule {
        resource: resource.into(),
        dimension,
        scale,
        absent,
    }
}

fn mib(unit: &str, each: u64) -> Scale {
    Scale::Units {
        unit: unit.into(),
        each,
        most: LARGEST_PLAUSIBLE_MIB,
    }
}

fn percents() -> Scale {
    Scale::Units {
        unit: "percent of the card".into(),
        each: 1,
        most: WHOLE_CORE,
    }
}

fn chooser(annotation: &str, chooses: Chooses) -> Chooser {
    Chooser {
        annotation: annotation.into(),
        class: Arc::from(CLASS),
        chooses,
    }
}
