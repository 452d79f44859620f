//! Starts the real clients on one installed copy of the library.

use gpushare_fake_nvml::Hardware;
use gpushare_fake_nvml::testing::{Installed, install};
use nvml_wrapper::Nvml;
use tempfile::TempDir;

/// A machine of a test: its library and hardware file, gone with the value.
pub(crate) struct Machine {
    pub(crate) installed: Installed,
    _directory: TempDir,
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

    pub(crate) fn try_nvml(&self) -> Result<Nvml, nvml_wrapper::error::NvmlError> {
        Nvml::builder()
            .lib_path(self.installed.library.as_os_str())
            .init()
    }

    /// Changes the hardware while clients run.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Hardware)) {
        gpushare_fake_nvml::hardware::update(&self.installed.hardware, change)
            .expect("the hardware file can be changed");
    }
}
