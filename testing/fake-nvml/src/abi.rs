//! The C interface of NVML: exported functions, their types, and the state behind them.
//!
//! Every exported function goes through [`answer`], which turns results into return codes and
//! stops panics, and touches the caller's memory only through [`Out`] and [`text`]. The functions
//! are grouped by what they are about; simple questions about a card are rows of a table.

mod code;
mod device;
mod event;
mod export_table;
mod memory;
mod pointer;
mod process;
mod session;
mod source;
mod system;
mod telemetry;
mod types;
mod unsupported;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use code::Code;
use pointer::{Out, text};
use session::{DeviceHandle, read_card};

type Answer = Result<(), Code>;

/// Runs an exported function's body and turns its outcome into NVML's return code.
fn answer(operation: impl FnOnce() -> Answer) -> c_int {
    match catch_unwind(AssertUnwindSafe(operation)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.number(),
        Err(_) => Code::Unknown.number(),
    }
}

/// Defines exported functions, each under the names that NVML's versions have for it.
macro_rules! exported {
    ($($($name:ident),+: $arguments:tt => $body:expr;)*) => {$($(
        #[unsafe(no_mangle)]
        extern "C" fn $name $arguments -> std::ffi::c_int {
            $crate::abi::answer(|| $body)
        }
    )+)*};
}
use exported;

/// Defines exported functions that answer one question about a card through one out-parameter.
macro_rules! card_questions {
    ($($name:ident -> $type:ty = $read:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(device: $crate::abi::DeviceHandle, out: $crate::abi::Out<$type>) -> std::ffi::c_int {
            $crate::abi::answer(|| out.set($crate::abi::read_card(device, $read)?))
        }
    )*};
}
use card_questions;
