//! Functions that list the processes on a card.

use std::ffi::{c_int, c_uint};

use super::code::Code;
use super::memory::bytes;
use super::types::{NO_INSTANCE, ProcessInfo, ProcessInfoV1};
use super::{Answer, DeviceHandle, Out, answer, read_card};
use crate::hardware::{Process, ProcessKind};

/// Defines exported functions that list the processes of one kind.
macro_rules! process_lists {
    ($($name:ident: $kind:ident as $info:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(device: DeviceHandle, count: Out<c_uint>, list: Out<$info>) -> c_int {
            answer(|| processes(device, ProcessKind::$kind, count, list))
        }
    )*};
}

process_lists! {
    nvmlDeviceGetComputeRunningProcesses: Compute as ProcessInfoV1;
    nvmlDeviceGetComputeRunningProcesses_v2: Compute as ProcessInfo;
    nvmlDeviceGetComputeRunningProcesses_v3: Compute as ProcessInfo;
    nvmlDeviceGetGraphicsRunningProcesses: Graphics as ProcessInfoV1;
    nvmlDeviceGetGraphicsRunningProcesses_v2: Graphics as ProcessInfo;
    nvmlDeviceGetGraphicsRunningProcesses_v3: Graphics as ProcessInfo;
    nvmlDeviceGetMPSComputeRunningProcesses: Mps as ProcessInfoV1;
    nvmlDeviceGetMPSComputeRunningProcesses_v2: Mps as ProcessInfo;
    nvmlDeviceGetMPSComputeRunningProcesses_v3: Mps as ProcessInfo;
}

impl From<&Process> for ProcessInfoV1 {
    fn from(process: &Process) -> Self {
        Self {
            pid: process.pid,
            used_memory: bytes(process.memory_mib),
        }
    }
}

impl From<&Process> for ProcessInfo {
    fn from(process: &Process) -> Self {
        Self {
            pid: process.pid,
            used_memory: bytes(process.memory_mib),
            gpu_instance: NO_INSTANCE,
            compute_instance: NO_INSTANCE,
        }
    }
}

/// Fills the caller's list; if it is too short, says how long it must be.
pub(super) fn processes<Info: Copy + for<'a> From<&'a Process>>(
    device: DeviceHandle,
    kind: ProcessKind,
    count: Out<c_uint>,
    list: Out<Info>,
) -> Answer {
    let found: Vec<Info> = read_card(device, |card| {
        let of_kind = card.processes.iter().filter(|process| process.kind == kind);
        Ok(of_kind.map(Info::from).collect())
    })?;
    let room = count.get()?;
    let needed = c_uint::try_from(found.len()).map_err(|_| Code::Unknown)?;
    count.set(needed)?;
    if room < needed {
        return Err(Code::InsufficientSize);
    }
    list.set_all(room, &found)
}
