//! The fake library seen by the real clients: nvml-wrapper, pynvml and nvidia-smi.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy.toml lets test functions stop at a surprise; their helpers are tests too"
)]

mod arguments;
mod clients;
mod events;
mod failures;
mod hardware_file;
mod listing;
mod pynvml;
mod smi;
