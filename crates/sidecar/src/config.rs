//! Configuration of the sidecar: flags and environment as typed, resolved once into what the program uses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use thiserror::Error;

use super::{DIRECTORY, environment};
use gpushare_daemon::args::{LogArgs, duration};

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_hours(1);

/// The flags as given; every one has an environment variable.
#[derive(Args, Clone, Debug)]
pub struct RawConfig {
    /// URL of the timekeeper, such as `https://gpushare-timekeeper.gpushare-system.svc`
    #[arg(long, env = environment::TIMEKEEPER)]
    pub timekeeper: String,

    /// CA certificates (PEM) to trust when connecting to the timekeeper
    #[arg(long, env = environment::AUTHORITIES)]
    pub timekeeper_ca: String,

    /// Namespace of the pod
    #[arg(long, env = environment::NAMESPACE)]
    pub namespace: String,

    /// Name of the pod
    #[arg(long, env = environment::POD)]
    pub pod: String,

    /// File with the token that the timekeeper accepts; read again for every request
    #[arg(
        long,
        env = "GPUSHARE_TOKEN_FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    pub token_file: PathBuf,

    /// Directory in which budget.json is written
    #[arg(long, env = "GPUSHARE_DIRECTORY", default_value = DIRECTORY)]
    pub directory: PathBuf,

    /// Loopback address on which /budget and /healthz are served
    #[arg(long, env = "GPUSHARE_LISTEN", default_value = "127.0.0.1:12356")]
    pub listen: SocketAddr,

    /// How often to ask the timekeeper
    #[arg(long, env = "GPUSHARE_INTERVAL", default_value = "15s", value_parser = duration)]
    pub interval: Duration,

    #[command(flatten)]
    pub log: LogArgs,
}

/// The configuration in use.
#[derive(Clone, Debug)]
pub struct Config {
    pub timekeeper: String,
    pub authorities: String,
    pub namespace: String,
    pub pod: String,
    pub token_file: PathBuf,
    pub directory: PathBuf,
    pub listen: SocketAddr,
    pub interval: Duration,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error(
        "--timekeeper {0:?} is not an https:// address, and the token may not be sent over another kind of connection"
    )]
    Timekeeper(String),
    #[error("--{0} {1:?} is not a valid name of a Kubernetes object")]
    Name(&'static str, String),
    #[error(
        "--listen {0} can be reached by others: give a loopback address such as 127.0.0.1:12356"
    )]
    Exposed(SocketAddr),
    #[error("--interval {0:?} is not between {SHORTEST:?} and {LONGEST:?}")]
    Interval(Duration),
}

impl TryFrom<RawConfig> for Config {
    type Error = ConfigError;

    fn try_from(raw: RawConfig) -> Result<Self, ConfigError> {
        if !raw.timekeeper.starts_with("https://") {
            return Err(ConfigError::Timekeeper(raw.timekeeper));
        }
        for (flag, name) in [("namespace", &raw.namespace), ("pod", &raw.pod)] {
            if !is_name(name) {
                return Err(ConfigError::Name(flag, name.clone()));
            }
        }
        if !raw.listen.ip().is_loopback() {
            return Err(ConfigError::Exposed(raw.listen));
        }
        if !(SHORTEST..=LONGEST).contains(&raw.interval) {
            return Err(ConfigError::Interval(raw.interval));
        }
        Ok(Self {
            timekeeper: raw.timekeeper,
            authorities: raw.timekeeper_ca,
            namespace: raw.namespace,
            pod: raw.pod,
            token_file: raw.token_file,
            directory: raw.directory,
            listen: raw.listen,
            interval: raw.interval,
        })
    }
}

/// Such names need no escaping in a path.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    let first = text.bytes().next();
    first.is_some_and(|byte| byte != b'.') && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TOKEN_DIRECTORY, TOKEN_FILE};
    use gpushare_daemon::args::read;

    fn config(flags: &[&str]) -> Result<Config, ConfigError> {
        let place = [
            ["--timekeeper", "https://t"],
            ["--timekeeper-ca", "pem"],
            ["--namespace", "team-a"],
            ["--pod", "train-0"],
        ];
        // A flag of the test replaces the same flag of the place.
        let given: Vec<&str> = flags.iter().step_by(2).copied().collect();
        let place = place.iter().filter(|[flag, _]| !given.contains(flag));
        let place = place.flatten().copied();
        let flags = place.chain(flags.iter().copied());
        read::<RawConfig>(flags).unwrap().try_into()
    }

    #[test]
    fn the_defaults_are_where_the_webhook_mounts_things() {
        let config = config(&[]).unwrap();
        assert_eq!(config.directory, PathBuf::from(DIRECTORY));
        let token = PathBuf::from(TOKEN_DIRECTORY).join(TOKEN_FILE);
        assert_eq!(config.token_file, token);
    }

    #[test]
    fn what_would_show_the_token_or_the_budget_to_others_is_refused() {
        let error = |flags: &[&str]| config(flags).unwrap_err().to_string();
        assert!(error(&["--timekeeper", "http://t"]).contains("https"));
        assert!(error(&["--listen", "0.0.0.0:1"]).contains("loopback"));
        for strange in ["", "../x", ".", "a/b", "a?b"] {
            assert!(error(&["--pod", strange]).contains("--pod"), "{strange}");
            assert!(error(&["--namespace", strange]).contains("--namespace"));
        }
        for interval in ["0s", "2h"] {
            assert!(error(&["--interval", interval]).contains("--interval"));
        }
    }
}
