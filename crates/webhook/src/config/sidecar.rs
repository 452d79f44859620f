//! The administrator's settings for the budget sidecar.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use gpushare_core::quantity::{Quantity, QuantityError};
use gpushare_daemon::tls;
use thiserror::Error;

use crate::sidecar::Sidecar;

/// Where the manifests serve the timekeeper.
const TIMEKEEPER: &str = "https://gpushare-timekeeper.gpushare-system.svc";

#[derive(Args, Clone, Debug)]
pub struct SidecarArgs {
    /// Image of the budget sidecar, with a tag or digest. Without it, pods that ask for the sidecar get a warning and no sidecar
    #[arg(long, env = "GPUSHARE_SIDECAR_IMAGE", requires = "sidecar_ca")]
    pub sidecar_image: Option<String>,

    /// CA certificates (PEM) that sidecars trust when they connect to the timekeeper
    #[arg(long, env = "GPUSHARE_SIDECAR_CA")]
    pub sidecar_ca: Option<PathBuf>,

    /// URL at which sidecars find the timekeeper
    #[arg(long, env = "GPUSHARE_SIDECAR_TIMEKEEPER", default_value = TIMEKEEPER)]
    pub sidecar_timekeeper: String,

    /// CPU of a sidecar, as request and limit
    #[arg(long, env = "GPUSHARE_SIDECAR_CPU", default_value = "20m")]
    pub sidecar_cpu: String,

    /// Memory of a sidecar, as request and limit
    #[arg(long, env = "GPUSHARE_SIDECAR_MEMORY", default_value = "32Mi")]
    pub sidecar_memory: String,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SidecarError {
    #[error(
        "--sidecar-image {0:?} does not name a fixed version: give a tag other than latest, or a digest"
    )]
    Image(String),
    #[error("--sidecar-timekeeper {0:?} is not an https:// address")]
    Timekeeper(String),
    #[error("--{flag} {value:?} {source}")]
    Quantity {
        flag: &'static str,
        value: String,
        source: QuantityError,
    },
    #[error("--{flag} {value:?} must be above zero")]
    Nothing { flag: &'static str, value: String },
    #[error("--sidecar-ca {}: {reason}", path.display())]
    Authorities { path: PathBuf, reason: String },
}

impl SidecarArgs {
    pub(super) fn sidecar(&self) -> Result<Option<Sidecar>, SidecarError> {
        let (Some(image), Some(path)) = (&self.sidecar_image, &self.sidecar_ca) else {
            return Ok(None);
        };
        if !is_fixed(image) {
            return Err(SidecarError::Image(image.clone()));
        }
        if !self.sidecar_timekeeper.starts_with("https://") {
            let url = self.sidecar_timekeeper.clone();
            return Err(SidecarError::Timekeeper(url));
        }
        positive("sidecar-cpu", &self.sidecar_cpu)?;
        positive("sidecar-memory", &self.sidecar_memory)?;
        let unusable = |reason: String| SidecarError::Authorities {
            path: path.clone(),
            reason,
        };
        let pem = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        tls::authorities(pem.as_bytes()).map_err(unusable)?;
        Ok(Some(Sidecar {
            image: image.clone(),
            timekeeper: self.sidecar_timekeeper.clone(),
            authorities: pem,
            cpu: self.sidecar_cpu.clone(),
            memory: self.sidecar_memory.clone(),
        }))
    }
}

/// Whether the image has a digest or a tag other than `latest`, so that the name is likely to keep its meaning.
fn is_fixed(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or(image);
    last.contains('@')
        || last
            .split_once(':')
            .is_some_and(|(_, tag)| !tag.is_empty() && tag != "latest")
}

fn positive(flag: &'static str, value: &str) -> Result<(), SidecarError> {
    let refused = |source| SidecarError::Quantity {
        flag,
        value: value.to_owned(),
        source,
    };
    let quantity = Quantity::parse(value).map_err(refused)?;
    let nothing = Quantity::parse("0").map_err(refused)?;
    if quantity <= nothing {
        let value = value.to_owned();
        return Err(SidecarError::Nothing { flag, value });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpushare_daemon::args::read;

    fn sidecar(flags: &[&str]) -> Result<Option<Sidecar>, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ca.pem");
        let issued = rcgen::generate_simple_self_signed(["t".to_owned()]).unwrap();
        fs::write(&file, issued.cert.pem()).unwrap();
        let file = ["--sidecar-ca", file.to_str().unwrap()];
        let flags = flags.iter().copied();
        let args: SidecarArgs = read(file.into_iter().chain(flags)).unwrap();
        args.sidecar().map_err(|error| error.to_string())
    }

    #[test]
    fn without_an_image_there_is_no_sidecar() {
        assert_eq!(sidecar(&[]), Ok(None));
        assert!(read::<SidecarArgs>(["--sidecar-image", "a:1"]).is_err());
    }

    #[test]
    fn an_image_must_be_the_same_tomorrow() {
        let digest = format!("r.example:5000/a@sha256:{}", "0".repeat(64));
        for image in ["gpushare-control:0.1.0", "r.example:5000/a/b:1", &digest] {
            let found = sidecar(&["--sidecar-image", image]).unwrap().unwrap();
            assert_eq!(found.image, image);
            assert!(found.authorities.contains("BEGIN CERTIFICATE"));
        }
        for image in ["a", "a:latest", "r.example:5000/a", "a:"] {
            let error = sidecar(&["--sidecar-image", image]).unwrap_err();
            assert!(error.contains("does not name a fixed version"), "{error}");
        }
    }

    #[test]
    fn values_that_cannot_work_are_refused_with_what_must_hold() {
        let error = |flags: &[&str]| {
            let image = ["--sidecar-image", "a:1"];
            sidecar(&[&image[..], flags].concat()).unwrap_err()
        };
        assert!(error(&["--sidecar-cpu", "0"]).contains("must be above zero"));
        assert!(error(&["--sidecar-memory", "much"]).contains("--sidecar-memory"));
        assert!(error(&["--sidecar-timekeeper", "http://t"]).contains("https"));
        let missing = ["--sidecar-image", "a:1", "--sidecar-ca", "/none"];
        let missing: SidecarArgs = read(missing).unwrap();
        assert!(missing.sidecar().unwrap_err().to_string().contains("/none"));
    }
}
