//! A machine with fake cards, and what every client can report about a card.

use std::env;
use std::path::PathBuf;

use gpushare_fake_nvml::hardware::{ProcessKind, update};
use gpushare_fake_nvml::testing::{Installation, install};
use gpushare_fake_nvml::{Hardware, Process};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde::Deserialize;
use tempfile::TempDir;

/// A machine of a test: its library and hardware file, removed when dropped.
pub(crate) struct Machine {
    pub(crate) installed: Installation,
    _directory: TempDir,
}

/// A card as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Listed {
    pub(crate) index: u32,
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) memory_total: u64,
    pub(crate) memory_used: u64,
    pub(crate) minor: u32,
    pub(crate) pci_bus_id: String,
    pub(crate) compute_pids: Vec<u32>,
}

impl Machine {
    pub(crate) fn new(hardware: &Hardware) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let installed = install(directory.path(), hardware).expect("the library is installed");
        Self {
            installed,
            _directory: directory,
        }
    }

    /// A machine with one card of each of two models.
    pub(crate) fn with_two_cards() -> (Hardware, Self) {
        let hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028), ("Tesla T4", 15_360)]);
        let machine = Self::new(&hardware);
        (hardware, machine)
    }

    /// nvml-wrapper on this machine.
    pub(crate) fn nvml(&self) -> Nvml {
        self.try_nvml().expect("NVML initialises")
    }

    pub(crate) fn try_nvml(&self) -> Result<Nvml, NvmlError> {
        Nvml::builder()
            .lib_path(self.installed.library.as_os_str())
            .init()
    }

    /// Lets an Xid happen on a card while clients run.
    pub(crate) fn push_xid(&self, uuid: &str, xid: u64) {
        self.change(|hardware| {
            hardware.push_xid(uuid, xid);
        });
    }

    /// Changes the hardware while clients run.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Hardware)) {
        update(&self.installed.hardware, change).expect("the hardware file can be changed");
    }
}

/// The cards as nvml-wrapper lists them.
pub(crate) fn list(nvml: &Nvml) -> Result<Vec<Listed>, NvmlError> {
    (0..nvml.device_count()?)
        .map(|index| describe(&nvml.device_by_index(index)?))
        .collect()
}

fn describe(device: &nvml_wrapper::Device<'_>) -> Result<Listed, NvmlError> {
    let memory = device.memory_info()?;
    Ok(Listed {
        index: device.index()?,
        uuid: device.uuid()?,
        name: device.name()?,
        memory_total: memory.total,
        memory_used: memory.used,
        minor: device.minor_number()?,
        pci_bus_id: device.pci_info()?.bus_id,
        compute_pids: device
            .running_compute_processes()?
            .iter()
            .map(|found| found.pid)
            .collect(),
    })
}

/// A process that holds so much memory of a card.
pub(crate) fn process(pid: u32, memory_mib: u64, kind: ProcessKind) -> Process {
    Process {
        pid,
        memory_mib,
        kind,
    }
}

/// A program that the tests need and that Cargo does not build.
pub(crate) fn program(variable: &str, what: &str) -> PathBuf {
    let Some(path) = env::var_os(variable) else {
        panic!(
            "{variable} is not set: run `cargo xtask test`, which fetches what the tests need, \
             or set it to {what}"
        );
    };
    PathBuf::from(path)
}
