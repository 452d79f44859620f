//! A machine with fake cards, and what every client can say about a card.

use std::env;
use std::path::PathBuf;

use gpushare_fake_nvml::Hardware;
use gpushare_fake_nvml::hardware::update;
use gpushare_fake_nvml::testing::{Installed, install};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde::Deserialize;
use tempfile::TempDir;

/// A machine of a test: its library and hardware file, removed when dropped.
pub(crate) struct Machine {
    pub(crate) installed: Installed,
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

    /// nvml-wrapper on this machine.
    pub(crate) fn nvml(&self) -> Nvml {
        self.try_nvml().expect("NVML initialises")
    }

    pub(crate) fn try_nvml(&self) -> Result<Nvml, NvmlError> {
        Nvml::builder()
            .lib_path(self.installed.library.as_os_str())
            .init()
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
