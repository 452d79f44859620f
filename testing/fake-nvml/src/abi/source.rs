//! Where the cards come from: the hardware file, found once, read again when its bytes change.

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs, ptr};

use super::code::Code;
use crate::hardware::{Hardware, HardwareError};
use crate::{HARDWARE_ENV, HARDWARE_FILE};

/// The hardware file as last read.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    bytes: Vec<u8>,
    hardware: Hardware,
    /// The complaint already printed, so that a broken file is reported once and not per call.
    reported: Option<String>,
}

impl Source {
    /// Finds and reads the hardware file; without one there is no driver.
    pub(super) fn open() -> Result<Self, Code> {
        let Some(path) = locate() else {
            report(&format!(
                "set {HARDWARE_ENV} to the path of a hardware file"
            ));
            return Err(Code::DriverNotLoaded);
        };
        read(&path)
            .map(|(bytes, hardware)| Self {
                path: path.clone(),
                bytes,
                hardware,
                reported: None,
            })
            .map_err(|error| {
                report(&complaint(&path, &error));
                Code::DriverNotLoaded
            })
    }

    /// The hardware as it is now.
    ///
    /// Compares the content and not the file's times: two changes within one tick of the file
    /// system's clock would look like one.
    pub(super) fn current(&mut self) -> Result<&Hardware, Code> {
        let result = match fs::read(&self.path) {
            Ok(bytes) if bytes == self.bytes => Ok(None),
            Ok(bytes) => Hardware::parse(&bytes).map(|hardware| Some((bytes, hardware))),
            Err(source) => Err(HardwareError::Read {
                path: self.path.clone(),
                source,
            }),
        };
        match result {
            Ok(changed) => {
                self.reported = None;
                if let Some((bytes, hardware)) = changed {
                    self.bytes = bytes;
                    self.hardware = hardware;
                }
                Ok(&self.hardware)
            }
            Err(error) => {
                let complaint = complaint(&self.path, &error);
                if self.reported.as_ref() != Some(&complaint) {
                    report(&complaint);
                    self.reported = Some(complaint);
                }
                Err(Code::Unknown)
            }
        }
    }
}

fn read(path: &Path) -> Result<(Vec<u8>, Hardware), HardwareError> {
    let bytes = fs::read(path).map_err(|source| HardwareError::Read {
        path: path.to_owned(),
        source,
    })?;
    let hardware = Hardware::parse(&bytes)?;
    Ok((bytes, hardware))
}

fn locate() -> Option<PathBuf> {
    if let Some(path) = env::var_os(HARDWARE_ENV).filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path));
    }
    let beside = library_file()?.parent()?.join(HARDWARE_FILE);
    beside.exists().then_some(beside)
}

/// The file from which the dynamic linker loaded this very copy of the library.
fn library_file() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    let inside = library_file as *const c_void;
    // SAFETY: `inside` is an address of loaded code and `info` a writable Dl_info.
    let found = unsafe { libc::dladdr(inside, &raw mut info) } != 0;
    if !found || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr succeeded, so the name is a text that lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

fn complaint(path: &Path, error: &HardwareError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{}: {error}{}", path.display(), cause.unwrap_or_default())
}

fn report(complaint: &str) {
    eprintln!("fake libnvidia-ml: {complaint}");
}
