//! Functions about the library and the machine: initialisation, versions, error texts.

use std::ffi::{c_char, c_int, c_uint};
use std::fs;

use super::code::{Code, message};
use super::session::{initialize, shut_down, view};
use super::{Out, exported};

exported! {
    nvmlInit, nvmlInit_v2: () => initialize();
    // The flags relax failures that the fake driver never has.
    nvmlInitWithFlags: (_flags: c_uint) => initialize();
    nvmlShutdown: () => shut_down();
    nvmlSystemGetDriverVersion: (out: Out<c_char>, room: c_uint) => {
        view(|view| out.set_text(room, &view.hardware.driver_version))
    };
    nvmlSystemGetNVMLVersion: (out: Out<c_char>, room: c_uint) => {
        view(|view| out.set_text(room, &view.hardware.nvml_version))
    };
    nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2: (out: Out<c_int>) => {
        view(|view| out.set(view.hardware.cuda_version))
    };
    // The path of a process's executable, cut to the caller's room as the real library does.
    nvmlSystemGetProcessName: (pid: c_uint, out: Out<c_char>, room: c_uint) => {
        let name = process_name(pid).ok_or(Code::NotFound)?;
        let keep = (room as usize).saturating_sub(1);
        let end = name.floor_char_boundary(keep);
        out.set_text(room, name.get(..end).unwrap_or_default())
    };
    // S-class units are an obsolete product, so there are none.
    nvmlUnitGetCount: (out: Out<c_uint>) => out.set(0);
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    message(code).as_ptr()
}

/// The path of a process's executable; `None` if the process is gone or belongs to another user.
pub(super) fn process_name(pid: c_uint) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(link.to_string_lossy().into_owned())
}
