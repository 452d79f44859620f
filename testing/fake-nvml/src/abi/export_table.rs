//! The private table of functions that nvidia-smi asks for beside the public ones.
//!
//! nvidia-smi refuses to start without it ("mismatch in versions") and takes its list of processes
//! from it. The other entries are its debug log and details that no public function has: they
//! answer "not supported", which nvidia-smi shows as "N/A". Layout and places were found by
//! watching nvidia-smi 535 of Debian 12; another major version asks for another table.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use super::code::Code;
use super::pointer::fixed_text;
use super::process::processes;
use super::system::process_name;
use super::types::ProcessInfo;
use super::{DeviceHandle, Out, answer};
use crate::hardware::{Process, ProcessKind};

/// The name under which nvidia-smi asks for the table.
const TABLE_ID: [u8; 16] = [
    0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4,
];

/// Shown for a process that is not on this machine; nvidia-smi leaves out a process without a name.
const NO_NAME: &str = "[Not Found]";

type Unknown = extern "C" fn() -> c_int;
type ProcessList = extern "C" fn(DeviceHandle, Out<c_uint>, Out<NamedProcess>) -> c_int;

#[repr(C)]
struct ExportTable {
    size_in_bytes: usize,
    before: [Unknown; 212],
    compute_processes: ProcessList,
    mps_processes: ProcessList,
    graphics_processes: ProcessList,
    after: [Unknown; 29],
}

/// A process as nvidia-smi shows it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct NamedProcess {
    info: ProcessInfo,
    unknown: c_ulonglong,
    name: [c_char; 4096],
}

static TABLE: ExportTable = ExportTable {
    size_in_bytes: size_of::<ExportTable>(),
    before: [not_supported; 212],
    compute_processes,
    mps_processes,
    graphics_processes,
    after: [not_supported; 29],
};

#[unsafe(no_mangle)]
extern "C" fn nvmlInternalGetExportTable(
    out: Out<&'static ExportTable>,
    id: Out<[u8; 16]>,
) -> c_int {
    answer(|| {
        if id.get()? != TABLE_ID {
            return Err(Code::InvalidArgument);
        }
        out.set(&TABLE)
    })
}

/// Ignores its arguments, as the C calling conventions of Linux allow.
extern "C" fn not_supported() -> c_int {
    Code::NotSupported.number()
}

extern "C" fn compute_processes(
    device: DeviceHandle,
    count: Out<c_uint>,
    list: Out<NamedProcess>,
) -> c_int {
    answer(|| processes(device, ProcessKind::Compute, count, list))
}

extern "C" fn graphics_processes(
    device: DeviceHandle,
    count: Out<c_uint>,
    list: Out<NamedProcess>,
) -> c_int {
    answer(|| processes(device, ProcessKind::Graphics, count, list))
}

extern "C" fn mps_processes(
    device: DeviceHandle,
    count: Out<c_uint>,
    list: Out<NamedProcess>,
) -> c_int {
    answer(|| processes(device, ProcessKind::Mps, count, list))
}

impl From<&Process> for NamedProcess {
    fn from(process: &Process) -> Self {
        Self {
            info: process.into(),
            unknown: 0,
            name: fixed_text(process_name(process.pid).as_deref().unwrap_or(NO_NAME)),
        }
    }
}
