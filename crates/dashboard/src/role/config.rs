//! Configuration of the dashboard: flags and environment as typed, resolved once into what the program uses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use gpushare_core::dialect::Dialects;
use gpushare_daemon::logging;
use gpushare_daemon::tls::TlsFiles;
use thiserror::Error;

use gpushare_daemon::args::duration;
use gpushare_kube::args::{ReadingArgs, ReadingError};

/// The flags as given; every one has an environment variable.
#[derive(Args, Clone, Debug)]
pub struct RawConfig {
    /// Address to serve browsers on; with --tls-cert in HTTPS
    #[arg(long, env = "GPUSHARE_LISTEN", default_value = "127.0.0.1:12350")]
    pub listen: SocketAddr,

    /// Serve /healthz, /readyz, /metrics and /version here, in plain HTTP, for probes
    #[arg(long, env = "GPUSHARE_ADMIN_LISTEN")]
    pub admin_listen: Option<SocketAddr>,

    /// Who may look: with a token of the cluster, or everybody who can connect (loopback only)
    #[arg(long, env = "GPUSHARE_AUTH", value_enum, default_value_t = Auth::Token)]
    pub auth: Auth,

    /// Server certificate chain (PEM); needed on addresses that are not loopback
    #[arg(long, env = "GPUSHARE_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the server certificate (PEM)
    #[arg(long, env = "GPUSHARE_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// How often the cluster is sampled for the curves over time; 360 samples are kept
    #[arg(long, env = "GPUSHARE_SAMPLE_EVERY", default_value = "10s", value_parser = duration)]
    pub sample_every: Duration,

    #[command(flatten)]
    pub reading: ReadingArgs,

    /// Path of a kubeconfig; without it KUBECONFIG, the default path, or the pod's service account
    #[arg(long, env = "GPUSHARE_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// text or json
    #[arg(long, env = "GPUSHARE_LOG_FORMAT", default_value_t)]
    pub log_format: logging::Format,

    /// Log filter, such as info,gpushare=debug
    #[arg(long, env = "GPUSHARE_LOG", default_value = "info")]
    pub log: String,
}

/// How viewers show who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// By a token of the cluster, with the right to get dashboards.gpushare.io
    Token,
    /// Not at all
    None,
}

/// The configuration in use.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin_listen: Option<SocketAddr>,
    pub auth: Auth,
    pub tls: Option<TlsFiles>,
    pub sample_every: Duration,
    pub dialects: Dialects,
    pub kubeconfig: Option<PathBuf>,
    pub log_format: logging::Format,
    pub log_filter: String,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error(transparent)]
    Reading(#[from] ReadingError),
    #[error("--sample-every {0:?} is not between 1 second and 1 hour")]
    SampleEvery(Duration),
}

impl TryFrom<RawConfig> for Config {
    type Error = ConfigError;

    fn try_from(raw: RawConfig) -> Result<Self, ConfigError> {
        if !(1..=3600).contains(&raw.sample_every.as_secs()) {
            return Err(ConfigError::SampleEvery(raw.sample_every));
        }
        let tls = raw
            .tls_cert
            .zip(raw.tls_key)
            .map(|(certificate, key)| TlsFiles {
                certificate,
                key,
                client_ca: None,
            });
        Ok(Self {
            listen: raw.listen,
            admin_listen: raw.admin_listen,
            auth: raw.auth,
            tls,
            sample_every: raw.sample_every,
            dialects: raw.reading.dialects()?,
            kubeconfig: raw.kubeconfig,
            log_format: raw.log_format,
            log_filter: raw.log,
        })
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
    fn the_defaults_want_a_token_and_listen_on_loopback() {
        let config = config(&[]).unwrap();
        assert_eq!(config.auth, Auth::Token);
        assert!(config.listen.ip().is_loopback());
    }

    #[test]
    fn a_pace_that_would_never_or_always_sample_is_refused() {
        for pace in ["0s", "2h"] {
            let refused = config(&["--sample-every", pace]).unwrap_err();
            assert!(refused.to_string().contains("between 1 second and 1 hour"));
        }
    }
}
