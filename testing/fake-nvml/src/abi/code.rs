//! NVML's return codes and their texts.

use std::ffi::{CStr, c_int};

/// The codes that this library answers with. Success is the absence of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Uninitialized = 1,
    InvalidArgument = 2,
    NotSupported = 3,
    NotFound = 6,
    InsufficientSize = 7,
    DriverNotLoaded = 9,
    Timeout = 10,
    GpuIsLost = 15,
    ArgumentVersionMismatch = 25,
    Unknown = 999,
}

impl Code {
    pub(super) fn number(self) -> c_int {
        self as c_int
    }
}

/// The text of any code of NVML, also of those that only the real library uses.
pub(super) fn message(number: c_int) -> &'static CStr {
    match number {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"The operating system has blocked the request",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"The requested vGPU operation is not available because ECC is enabled",
        23 => c"Insufficient resources",
        24 => c"The requested frequency is not supported",
        25 => c"The provided version is invalid or unsupported",
        26 => c"The requested functionality has been deprecated",
        27 => c"The system is not ready for the request",
        28 => c"No GPUs were found",
        29 => c"Resource not in correct state to perform requested operation",
        30 => c"Reset not supported for given device or parameters",
        _ => c"Unknown Error",
    }
}
