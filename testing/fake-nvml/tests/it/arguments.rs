//! Arguments that no correct client passes are refused and touch no memory.

#![expect(unsafe_code, reason = "safe clients cannot pass wrong arguments")]

use std::ffi::c_char;
use std::mem::zeroed;
use std::ptr::{null, null_mut, without_provenance_mut};

use gpushare_fake_nvml::Hardware;
use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t, nvmlMemory_v2_t};

use crate::clients::Machine;

const UNINITIALIZED: u32 = 1;
const INVALID_ARGUMENT: u32 = 2;
const INSUFFICIENT_SIZE: u32 = 7;
const VERSION_MISMATCH: u32 = 25;

fn library(machine: &Machine) -> NvmlLib {
    // SAFETY: the library of this crate has no code that runs when it is loaded.
    unsafe { NvmlLib::new(&machine.installed.library) }.expect("the library loads")
}

#[test]
fn wrong_arguments_are_refused() {
    let machine = Machine::new(&Hardware::with_cards(&[("NVIDIA A10", 23_028)]));
    let nvml = library(&machine);
    let mut device: nvmlDevice_t = null_mut();
    let mut text = [0 as c_char; 8];
    // SAFETY: every pointer is null, which the library must refuse, or points to a local variable
    // of the right type; the made-up handles are never dereferenced by a caller.
    unsafe {
        assert_eq!(
            nvml.nvmlDeviceGetHandleByIndex_v2(0, &raw mut device),
            UNINITIALIZED
        );
        assert_eq!(nvml.nvmlShutdown(), UNINITIALIZED);
        assert_eq!(nvml.nvmlInit_v2(), 0);
        assert_eq!(nvml.nvmlDeviceGetCount_v2(null_mut()), INVALID_ARGUMENT);
        assert_eq!(
            nvml.nvmlDeviceGetHandleByIndex_v2(1, &raw mut device),
            INVALID_ARGUMENT
        );
        assert_eq!(
            nvml.nvmlDeviceGetHandleByUUID(null(), &raw mut device),
            INVALID_ARGUMENT
        );
        assert_eq!(nvml.nvmlDeviceGetHandleByIndex_v2(0, &raw mut device), 0);

        let room = u32::try_from(text.len()).unwrap();
        let out = text.as_mut_ptr();
        assert_eq!(nvml.nvmlDeviceGetUUID(device, out, room), INSUFFICIENT_SIZE);
        assert_eq!(
            text, [0; 8],
            "nothing is written into a buffer that is too small"
        );
        for handle in [
            null_mut(),
            without_provenance_mut(2),
            without_provenance_mut(usize::MAX),
        ] {
            assert_eq!(nvml.nvmlDeviceGetUUID(handle, out, room), INVALID_ARGUMENT);
        }

        let mut memory: nvmlMemory_v2_t = zeroed();
        assert_eq!(
            nvml.nvmlDeviceGetMemoryInfo_v2(device, &raw mut memory),
            VERSION_MISMATCH
        );
        assert_eq!(nvml.nvmlEventSetFree(null_mut()), INVALID_ARGUMENT);
        assert_eq!(nvml.nvmlShutdown(), 0);
    }
}
