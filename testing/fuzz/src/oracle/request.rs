//! What limits mean in each dialect, according to its documents: a second implementation, without the tables that the
//! validator uses.

use std::collections::BTreeMap;

use super::count;

type Limits<'a> = BTreeMap<&'a str, &'a str>;

const MOST_CARDS: u64 = 64;
const MOST_MIB: u64 = 16 << 20;

/// A container's request. Memory is in MiB, compute in percent; zero means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) cards: u64,
    pub(crate) whole: bool,
    pub(crate) memory: u64,
    pub(crate) memory_percent: u64,
    pub(crate) core: u64,
    /// How much of each whole card may be used.
    pub(crate) memory_limit: u64,
}

/// `None` if the limits are invalid.
pub(crate) type Meaning = Option<Ask>;

const OURS: [&str; 3] = [
    "gpushare.io/gpu",
    "gpushare.io/gpu-mem",
    "gpushare.io/gpu-core",
];
const ALIYUN: [&str; 2] = ["aliyun.com/gpu-count", "aliyun.com/gpu-mem"];
const TENCENT: [&str; 2] = ["tencent.com/vcuda-core", "tencent.com/vcuda-memory"];
const HAMI: [&str; 4] = [
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
];

/// What the limits mean. The outer `None` means that they name no resource of ours.
pub(crate) fn meaning(limits: &Limits<'_>) -> Option<Meaning> {
    let uses = |names: &[&str]| names.iter().any(|name| limits.contains_key(name));
    match (uses(&OURS), uses(&ALIYUN), uses(&TENCENT), uses(&HAMI)) {
        (false, false, false, false) => None,
        (true, false, false, false) => Some(ours(limits)),
        (false, true, false, false) => Some(aliyun(limits)),
        (false, false, true, false) => Some(tencent(limits)),
        (false, false, false, true) => Some(hami(limits)),
        _ => Some(None),
    }
}

fn ours(limits: &Limits<'_>) -> Meaning {
    let cards = within(limits, "gpushare.io/gpu", MOST_CARDS)??;
    let memory = within(limits, "gpushare.io/gpu-mem", MOST_MIB)?;
    let core = within(limits, "gpushare.io/gpu-core", 100)?;
    let whole = memory.is_none() && core.is_none();
    Some(Ask {
        cards,
        whole,
        memory: if whole { 0 } else { memory? },
        core: core.unwrap_or(0),
        ..Ask::default()
    })
}

fn aliyun(limits: &Limits<'_>) -> Meaning {
    Some(Ask {
        cards: within(limits, "aliyun.com/gpu-count", MOST_CARDS)?.unwrap_or(1),
        memory: within(limits, "aliyun.com/gpu-mem", MOST_MIB / 1024)?? * 1024,
        ..Ask::default()
    })
}

fn tencent(limits: &Limits<'_>) -> Meaning {
    let core = within(limits, "tencent.com/vcuda-core", MOST_CARDS * 100)??;
    let blocks = within(limits, "tencent.com/vcuda-memory", MOST_MIB / 256)?;
    if core < 100 {
        return Some(Ask {
            cards: 1,
            memory: blocks? * 256,
            core,
            ..Ask::default()
        });
    }
    let cards = core / 100;
    let memory_limit = blocks.unwrap_or(0) * 256 / cards;
    let sensible = core % 100 == 0 && (blocks.is_none() || memory_limit > 0);
    sensible.then_some(Ask {
        cards,
        whole: true,
        memory_limit,
        ..Ask::default()
    })
}

fn hami(limits: &Limits<'_>) -> Meaning {
    let said = |name: &str, most: u64| match limits.get(name).map(|text| count(text)) {
        Some(Some(0)) => Some(None),
        _ => within(limits, name, most),
    };
    let cards = within(limits, "nvidia.com/gpu", MOST_CARDS)??;
    let memory = said("nvidia.com/gpumem", MOST_MIB)?;
    let percent = said("nvidia.com/gpumem-percentage", 100)?;
    let core = said("nvidia.com/gpucores", 100)?;
    if memory.is_some() && percent.is_some() {
        return None;
    }
    let whole = memory.is_none() && percent.is_none() && core.is_none();
    let all = if whole || memory.is_some() { 0 } else { 100 };
    Some(Ask {
        cards,
        whole,
        memory: memory.unwrap_or(0),
        memory_percent: percent.unwrap_or(all),
        core: core.unwrap_or(0),
        ..Ask::default()
    })
}

/// A whole number from 1 to `most`. The outer `None` means that the value is anything else, the inner one that it is
/// missing.
#[expect(clippy::option_option, reason = "read with one ? or with two")]
fn within(limits: &Limits<'_>, name: &str, most: u64) -> Option<Option<u64>> {
    let Some(text) = limits.get(name) else {
        return Some(None);
    };
    let number = count(text)?;
    (1..=most).contains(&number).then_some(Some(number))
}

/// Whether an annotation that chooses cards is valid; any other annotation is.
pub(crate) fn chooses_well(name: &str, value: &str) -> bool {
    let entries: Vec<&str> = value
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .collect();
    let listed = (1..=64).contains(&entries.len());
    match name {
        "gpushare.io/policy" => {
            ["binpack", "spread", "best-fit", "first-fit"].contains(&value.trim())
        }
        "gpushare.io/card-models" | "gpushare.io/exclude-card-models" => {
            let word = |entry: &&str| entry.chars().any(char::is_alphanumeric);
            listed && entries.iter().all(word)
        }
        "gpushare.io/card-ids"
        | "gpushare.io/exclude-card-ids"
        | "nvidia.com/use-gputype"
        | "nvidia.com/nouse-gputype"
        | "nvidia.com/use-gpuuuid"
        | "nvidia.com/nouse-gpuuuid" => listed,
        _ => true,
    }
}
