//! Functions about a card's memory.

use std::ffi::{c_uint, c_ulonglong};

use super::code::Code;
use super::types::{Memory, MemoryV2, struct_version};
use super::{DeviceHandle, Out, card_questions, exported, read_card};
use crate::hardware::Card;

const MEMORY_V2: c_uint = struct_version::<MemoryV2>(2);

card_questions! {
    nvmlDeviceGetMemoryInfo -> Memory = memory;
}

exported! {
    nvmlDeviceGetMemoryInfo_v2: (device: DeviceHandle, out: Out<MemoryV2>) => {
        if out.first_field::<c_uint>().get()? != MEMORY_V2 {
            return Err(Code::ArgumentVersionMismatch);
        }
        out.set(read_card(device, memory_v2)?)
    };
}

/// The first version of the struct has no field for reserved memory and counts it as used.
fn memory(card: &Card) -> Result<Memory, Code> {
    let memory = memory_v2(card)?;
    Ok(Memory {
        total: memory.total,
        free: memory.free,
        used: memory.used.saturating_add(memory.reserved),
    })
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the shape of a question about a card"
)]
fn memory_v2(card: &Card) -> Result<MemoryV2, Code> {
    let total = bytes(card.memory_mib);
    let reserved = bytes(card.reserved_mib).min(total);
    let used = bytes(card.used_mib()).min(total.saturating_sub(reserved));
    let free = total.saturating_sub(reserved).saturating_sub(used);
    Ok(MemoryV2 {
        version: MEMORY_V2,
        total,
        reserved,
        free,
        used,
    })
}

pub(super) fn bytes(mib: u64) -> c_ulonglong {
    mib.saturating_mul(1 << 20)
}
