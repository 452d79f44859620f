//! Flags that several programs share, and how they are read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command};

use crate::logging::{self, Format, LoggingError};
use crate::tls::TlsFiles;

/// What is logged, and how.
#[derive(Args, Clone, Debug)]
pub struct LogArgs {
    /// text or json
    #[arg(long, env = "GPUSHARE_LOG_FORMAT", default_value_t)]
    pub log_format: Format,

    /// Log filter, such as info,gpushare=debug
    #[arg(long, env = "GPUSHARE_LOG", default_value = "info")]
    pub log: String,
}

impl LogArgs {
    /// Starts to log.
    pub fn init(&self) -> Result<(), LoggingError> {
        logging::init(self.log_format, &self.log)
    }
}

/// Where probes and Prometheus are answered.
#[derive(Args, Clone, Debug)]
pub struct AdminArgs {
    /// Serve /healthz, /readyz, /metrics and /version here too, in plain HTTP, for probes
    #[arg(long, env = "GPUSHARE_ADMIN_LISTEN")]
    pub admin_listen: Option<SocketAddr>,
}

/// The certificate to serve with.
#[derive(Args, Clone, Debug)]
pub struct TlsArgs {
    /// Server certificate chain (PEM); turns TLS on
    #[arg(long, env = "GPUSHARE_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the server certificate (PEM)
    #[arg(long, env = "GPUSHARE_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// `None` without a certificate. If there is a client CA, only clients with a certificate from it are served.
    pub fn files(&self, client_ca: Option<PathBuf>) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            client_ca,
        })
    }
}

/// A duration such as `15s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<jiff::SignedDuration>()
        .map_err(|error| error.to_string())
        .and_then(|duration| Duration::try_from(duration).map_err(|error| error.to_string()))
}

/// Reads the flags of a program as the program does, for callers that do not have them on a command line.
pub fn read<'a, Flags: Args>(
    flags: impl IntoIterator<Item = &'a str>,
) -> Result<Flags, clap::Error> {
    let command = Flags::augment_args(Command::new("flags").no_binary_name(true));
    Flags::from_arg_matches(&command.try_get_matches_from(flags)?)
}
