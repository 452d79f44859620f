//! Configuration of the dashboard: flags and environment as typed, resolved once into what the program uses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use gpushare_core::dialect::Dialects;
use gpushare_daemon::tls::TlsFiles;
use thiserror::Error;

use gpushare_daemon::args::{AdminArgs, LogArgs, TlsArgs, duration};
use gpushare_kube::args::{ClientArgs, ReadingArgs, ReadingError};

/// The flags as given; every one has an environment variable.
#[derive(Args, Clone, Debug)]
pub struct RawConfig {
    /// Address to serve browsers on; with --tls-cert in HTTPS
    #[arg(long, env = "GPUSHARE_LISTEN", default_value = "127.0.0.1:12350")]
    pub listen: SocketAddr,

    #[command(flatten)]
    pub admin: AdminArgs,

    /// Who may see the dashboard: users with a token of the cluster, or everybody who can connect (loopback only)
    #[arg(long, env = "GPUSHARE_AUTH", value_enum, default_value_t = Auth::Token)]
    pub auth: Auth,

    #[command(flatten)]
    pub tls: TlsArgs,

    /// How often the cluster is sampled for the curves over time; 360 samples are kept
    #[arg(long, env = "GPUSHARE_SAMPLE_EVERY", default_value = "10s", value_parser = duration)]
    pub sample_every: Duration,

    #[command(flatten)]
    pub reading: ReadingArgs,

    #[command(flatten)]
    pub client: ClientArgs,

    #[command(flatten)]
    pub log: LogArgs,
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
        Ok(Self {
            listen: raw.listen,
            admin_listen: raw.admin.admin_listen,
            auth: raw.auth,
            tls: raw.tls.files(None),
            sample_every: raw.sample_every,
            dialects: raw.reading.dialects()?,
            kubeconfig: raw.client.kubeconfig,
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
