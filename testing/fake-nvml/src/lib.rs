//! A fake GPU driver library: `libnvidia-ml.so.1` over a JSON "hardware" file.
//!
//! The crate is two things. Built as a shared library it speaks the C interface of NVML, so that
//! real clients (nvml-wrapper, pynvml, nvidia-smi) see the cards of the hardware file. Built as a
//! Rust library it writes that file: tests describe cards with [`Hardware`], change them while
//! clients run, and push health events.
//!
//! The library finds the file by the environment variable [`HARDWARE_ENV`], or, without it, as
//! [`HARDWARE_FILE`] in its own directory. The second way lets tests in one process have different
//! hardware each: [`testing::install`] gives every test its own copy of the library.
//!
//! A hardware file needs no more than this; [`Card`] names the other fields:
//!
//! ```
//! # use gpushare_fake_nvml::Hardware;
//! let hardware = Hardware::parse(br#"{
//!     "cards": [{
//!         "uuid": "GPU-5f2c0e1a-6770-4755-8000-000000000000",
//!         "minor": 0,
//!         "pci_bus_id": "00000000:01:00.0",
//!         "name": "NVIDIA A10",
//!         "memory_mib": 23028
//!     }]
//! }"#)?;
//! assert_eq!(hardware.cards.len(), 1);
//! # Ok::<(), gpushare_fake_nvml::hardware::HardwareError>(())
//! ```
//!
//! # Current limitations
//!
//! * As with the real driver, the list of cards is fixed when a client initialises: a card added
//!   later shows up after the next initialisation, a removed card is reported as lost. All other
//!   fields of a card are live.
//! * MIG, NvLink, vGPU, clocks and every setter answer "not supported".
//! * nvidia-smi is tested in version 535 of Debian 12: `-L`, the default table, `-q`,
//!   `--query-gpu` and `--query-compute-apps`. Its `topo`, `pmon` and `dmon` say that the cards do
//!   not support them.
//! * It runs no CUDA code: it only answers questions about cards.

#[expect(
    unsafe_code,
    reason = "the C interface of NVML fixes names and passes raw pointers"
)]
mod abi;
pub mod hardware;
pub mod testing;

pub use hardware::{Card, Hardware, Process};

/// Environment variable that names the hardware file.
pub const HARDWARE_ENV: &str = "GPUSHARE_FAKE_HARDWARE";

/// Name of the hardware file beside the library, read when [`HARDWARE_ENV`] is not set.
pub const HARDWARE_FILE: &str = "hardware.json";

/// The file name under which NVML clients look for the library.
pub const LIBRARY_NAME: &str = "libnvidia-ml.so.1";
