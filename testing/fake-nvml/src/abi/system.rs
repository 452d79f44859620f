//! Functions about the library and the machine: initialisation, versions, error texts.

use std::ffi::{c_char, c_int, c_uint};
use std::fs;

use super::code::{Code, message};
use super::session::{initialize, shut_down, view};
use super::{Answer, Out, answer};

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> c_int {
    answer(initialize)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> c_int {
    answer(initialize)
}

/// The flags relax failures that the fake driver never has.
#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> c_int {
    answer(initialize)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> c_int {
    answer(shut_down)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    message(code).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(out: Out<c_char>, room: c_uint) -> c_int {
    answer(|| view(|view| out.set_text(room, &view.hardware.driver_version)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(out: Out<c_char>, room: c_uint) -> c_int {
    answer(|| view(|view| out.set_text(room, &view.hardware.nvml_version)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion(out: Out<c_int>) -> c_int {
    answer(|| cuda_version(out))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: Out<c_int>) -> c_int {
    answer(|| cuda_version(out))
}

/// The path of a process's executable, cut to the caller's room as the real library does.
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetProcessName(pid: c_uint, out: Out<c_char>, room: c_uint) -> c_int {
    answer(|| {
        let name = process_name(pid).ok_or(Code::NotFound)?;
        let keep = (room as usize).saturating_sub(1);
        let end = name.floor_char_boundary(keep);
        out.set_text(room, name.get(..end).unwrap_or_default())
    })
}

/// S-class units are an obsolete product, so there are none.
#[unsafe(no_mangle)]
extern "C" fn nvmlUnitGetCount(out: Out<c_uint>) -> c_int {
    answer(|| out.set(0))
}

fn cuda_version(out: Out<c_int>) -> Answer {
    view(|view| out.set(view.hardware.cuda_version))
}

/// The path of a process's executable; `None` if the process is gone or belongs to another user.
pub(super) fn process_name(pid: c_uint) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(link.to_string_lossy().into_owned())
}
