//! Configuration of the webhook: flags and environment as typed, resolved once into what the program uses.

mod sidecar;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gpushare_core::dialect::Dialects;
use gpushare_daemon::tls::TlsFiles;
use thiserror::Error;

use super::pki::{Lifetimes, Settings};
use super::sidecar::Sidecar;
use gpushare_daemon::args::{AdminArgs, LogArgs, duration};
use gpushare_kube::args::{ClientArgs, ReadingArgs, ReadingError};

pub use sidecar::{SidecarArgs, SidecarError};

const MIB: usize = 1024 * 1024;
/// The shortest validity of a certificate, as a multiple of the overlap. A certificate is renewed when a third of its
/// lifetime is left, which must be longer than the overlap.
const OVERLAPS_IN_A_LIFETIME: u32 = 4;

/// The flags as given; every one has an environment variable.
#[derive(Args, Clone, Debug)]
pub struct RawConfig {
    /// Address to serve the API server on, always with TLS
    #[arg(long, env = "GPUSHARE_LISTEN", default_value = "0.0.0.0:12348")]
    pub listen: SocketAddr,

    #[command(flatten)]
    pub admin: AdminArgs,

    /// Server certificate chain (PEM), for example from cert-manager. Without it the webhook issues its own and writes the caBundle of its configurations
    #[arg(long, env = "GPUSHARE_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the server certificate (PEM)
    #[arg(long, env = "GPUSHARE_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Serve only API servers with a certificate signed by this CA (PEM)
    #[arg(long, env = "GPUSHARE_CLIENT_CA")]
    pub client_ca: Option<PathBuf>,

    /// Namespace of the Secret with the webhook's own certificates
    #[arg(long, env = "POD_NAMESPACE", default_value = "gpushare-system")]
    pub secret_namespace: String,

    /// Name of that Secret; the same for all replicas
    #[arg(
        long,
        env = "GPUSHARE_SECRET_NAME",
        default_value = "gpushare-webhook-tls"
    )]
    pub secret_name: String,

    /// Name of the webhook configurations whose caBundle the webhook maintains
    #[arg(long, env = "GPUSHARE_CONFIGURATION", default_value = "gpushare")]
    pub configuration: String,

    /// A name or address at which the API server calls the webhook; can be repeated
    #[arg(
        long = "server-name",
        env = "GPUSHARE_SERVER_NAMES",
        value_delimiter = ',',
        default_value = "gpushare-webhook.gpushare-system.svc"
    )]
    pub server_names: Vec<String>,

    /// How long the webhook's own CA is valid
    #[arg(long, env = "GPUSHARE_CA_VALIDITY", default_value = "8760h", value_parser = duration)]
    pub ca_validity: Duration,

    /// How long a certificate is valid
    #[arg(long, env = "GPUSHARE_CERTIFICATE_VALIDITY", default_value = "720h", value_parser = duration)]
    pub certificate_validity: Duration,

    /// How long clients trust a new CA before it signs, and an old CA after it has stopped signing
    #[arg(long, env = "GPUSHARE_CA_OVERLAP", default_value = "10m", value_parser = duration)]
    pub ca_overlap: Duration,

    /// Lowest priority of a class that pods with a budget may choose
    #[arg(long, env = "GPUSHARE_PRIORITY_MIN", default_value_t = i32::MIN, allow_negative_numbers = true)]
    pub priority_min: i32,

    /// Highest priority of a class that pods with a budget may choose
    #[arg(
        long,
        env = "GPUSHARE_PRIORITY_MAX",
        default_value_t = 1_000_000_000,
        allow_negative_numbers = true
    )]
    pub priority_max: i32,

    #[command(flatten)]
    pub sidecar: SidecarArgs,

    #[command(flatten)]
    pub reading: ReadingArgs,

    #[command(flatten)]
    pub client: ClientArgs,

    /// Largest accepted request body in MiB
    #[arg(long, env = "GPUSHARE_MAX_BODY_MIB", default_value_t = 8)]
    pub max_body_mib: usize,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Where certificates come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    Files(TlsFiles),
    Own {
        settings: Settings,
        client_ca: Option<PathBuf>,
    },
}

/// The configuration in use.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin_listen: Option<SocketAddr>,
    pub certificates: Certificates,
    pub dialects: Dialects,
    pub band: RangeInclusive<i32>,
    pub sidecar: Option<Sidecar>,
    pub kubeconfig: Option<PathBuf>,
    pub max_body: usize,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error(transparent)]
    Reading(#[from] ReadingError),
    #[error(transparent)]
    Sidecar(#[from] SidecarError),
    #[error("--priority-min {0} is above --priority-max {1}")]
    Band(i32, i32),
    #[error("--max-body-mib {0} is not between 1 and 64")]
    MaxBody(usize),
    #[error(
        "--secret-namespace, --secret-name, --configuration and --server-name must not be empty"
    )]
    Name,
    #[error(
        "--certificate-validity {certificate:?} must be at least {OVERLAPS_IN_A_LIFETIME} times --ca-overlap \
         {overlap:?}, and --ca-validity {authority:?} at least as much as --certificate-validity"
    )]
    Lifetimes {
        authority: Duration,
        certificate: Duration,
        overlap: Duration,
    },
}

impl TryFrom<RawConfig> for Config {
    type Error = ConfigError;

    fn try_from(raw: RawConfig) -> Result<Self, ConfigError> {
        if raw.priority_min > raw.priority_max {
            return Err(ConfigError::Band(raw.priority_min, raw.priority_max));
        }
        if !(1..=64).contains(&raw.max_body_mib) {
            return Err(ConfigError::MaxBody(raw.max_body_mib));
        }
        Ok(Self {
            listen: raw.listen,
            admin_listen: raw.admin.admin_listen,
            certificates: raw.certificates()?,
            dialects: raw.reading.dialects()?,
            band: raw.priority_min..=raw.priority_max,
            sidecar: raw.sidecar.sidecar()?,
            kubeconfig: raw.client.kubeconfig,
            max_body: raw.max_body_mib * MIB,
        })
    }
}

impl RawConfig {
    fn certificates(&self) -> Result<Certificates, ConfigError> {
        let client_ca = self.client_ca.clone();
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            return Ok(Certificates::Files(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_ca,
            }));
        }
        let settings = Settings {
            namespace: self.secret_namespace.clone(),
            secret: self.secret_name.clone(),
            configuration: self.configuration.clone(),
            names: self.server_names.clone(),
            lifetimes: self.lifetimes()?,
        };
        let mut names = settings.names.iter();
        let single = [
            &settings.namespace,
            &settings.secret,
            &settings.configuration,
        ];
        if settings.names.is_empty()
            || names.any(String::is_empty)
            || single.iter().any(|name| name.is_empty())
        {
            return Err(ConfigError::Name);
        }
        Ok(Certificates::Own {
            settings,
            client_ca,
        })
    }

    fn lifetimes(&self) -> Result<Lifetimes, ConfigError> {
        let lifetimes = Lifetimes {
            authority: self.ca_validity,
            certificate: self.certificate_validity,
            overlap: self.ca_overlap,
        };
        let Lifetimes {
            authority,
            certificate,
            overlap,
        } = lifetimes;
        let shortest = overlap.saturating_mul(OVERLAPS_IN_A_LIFETIME);
        if overlap.is_zero() || certificate < shortest || authority < certificate {
            return Err(ConfigError::Lifetimes {
                authority,
                certificate,
                overlap,
            });
        }
        Ok(lifetimes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpushare_daemon::args::read;

    fn config(flags: &[&str]) -> Result<Config, ConfigError> {
        read::<RawConfig>(flags.iter().copied()).unwrap().try_into()
    }

    #[test]
    fn without_files_the_webhook_makes_its_own_certificates() {
        let own = config(&[]).unwrap().certificates;
        let Certificates::Own { settings, .. } = own else {
            panic!("{own:?}")
        };
        assert_eq!(settings.names, ["gpushare-webhook.gpushare-system.svc"]);
        let files = config(&["--tls-cert", "c", "--tls-key", "k"]).unwrap();
        assert!(matches!(files.certificates, Certificates::Files(_)));
    }

    #[test]
    fn values_that_cannot_work_are_refused_with_what_must_hold() {
        let error = |flags: &[&str]| config(flags).unwrap_err().to_string();
        let short = error(&["--certificate-validity", "30m", "--ca-overlap", "10m"]);
        assert!(short.contains("4 times --ca-overlap"), "{short}");
        assert!(error(&["--ca-validity", "1h"]).contains("--ca-validity"));
        assert!(error(&["--ca-overlap", "0s"]).contains("--ca-overlap"));
        let band = error(&["--priority-min", "5", "--priority-max", "-5"]);
        assert!(band.contains("above"), "{band}");
        assert!(error(&["--server-name", ""]).contains("--server-name"));
        assert!(error(&["--max-body-mib", "0"]).contains("--max-body-mib"));
        assert!(read::<RawConfig>(["--tls-cert", "c"]).is_err());
    }

    #[test]
    fn the_system_classes_are_above_the_usual_band() {
        let band = config(&[]).unwrap().band;
        assert!(band.contains(&1_000_000_000) && !band.contains(&2_000_000_000));
        let narrow = config(&["--priority-min=-100", "--priority-max", "1000"]).unwrap();
        assert_eq!(narrow.band, -100..=1000);
    }
}
