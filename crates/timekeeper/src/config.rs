//! Configuration of the timekeeper: flags and environment as typed, resolved once into what the program uses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gpushare_core::dialect::Dialects;
use gpushare_daemon::tls::TlsFiles;
use gpushare_ledger::Seconds;
use gpushare_ledger::store::database::{Database, DatabaseError, Files};
use thiserror::Error;

use super::clock::Clock;
use gpushare_daemon::args::{AdminArgs, LogArgs, TlsArgs, duration};
use gpushare_kube::args::{ClientArgs, LeaseArgs, LeaseArgsError, ReadingArgs, ReadingError};
use gpushare_kube::leader::election::Election;

/// How long the API server may take to answer anything that the leader writes.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
const DATABASE: &str = "/var/lib/gpushare/ledger.db";
const LONGEST_GRID: Duration = Duration::from_hours(1);
const LONGEST_INTERVAL: Duration = Duration::from_mins(10);

/// The flags as given; every one has an environment variable.
#[derive(Args, Clone, Debug)]
pub struct RawConfig {
    /// Address to serve the budget API on
    #[arg(long, env = "GPUSHARE_LISTEN", default_value = "127.0.0.1:12352")]
    pub listen: SocketAddr,

    #[command(flatten)]
    pub admin: AdminArgs,

    #[command(flatten)]
    pub tls: TlsArgs,

    /// The ledger's database: the path of an SQLite file, or a PostgreSQL URL such as
    /// postgresql://gpushare@db.example/gpushare
    #[arg(long, env = "GPUSHARE_DATABASE", default_value = DATABASE)]
    pub database: String,

    /// A file with the password of the PostgreSQL user
    #[arg(long, env = "GPUSHARE_DATABASE_PASSWORD_FILE", value_name = "FILE")]
    pub database_password_file: Option<PathBuf>,

    /// CA certificates (PEM) to trust when connecting to the PostgreSQL server; turns TLS on
    #[arg(long, env = "GPUSHARE_DATABASE_CA", value_name = "FILE")]
    pub database_ca: Option<PathBuf>,

    /// How often running pods are charged; GPU time that is not charged yet is shown as held
    #[arg(long, env = "GPUSHARE_CHARGE_INTERVAL", default_value = "5m", value_parser = duration)]
    pub charge_interval: Duration,

    /// Longest pause between two complete rounds of the timekeeper
    #[arg(long, env = "GPUSHARE_INTERVAL", default_value = "5s", value_parser = duration)]
    pub interval: Duration,

    /// How often the numbers in a budget's status are updated while nothing else changes
    #[arg(long, env = "GPUSHARE_STATUS_INTERVAL", default_value = "30s", value_parser = duration)]
    pub status_interval: Duration,

    /// How long to keep the individual charges of ended pods, such as 9600h; by default forever
    #[arg(long, env = "GPUSHARE_RETENTION", value_parser = duration)]
    pub retention: Option<Duration>,

    #[command(flatten)]
    pub lease: LeaseArgs,

    /// Name of the lease; the same for all replicas of one timekeeper
    #[arg(
        long,
        env = "GPUSHARE_LEASE_NAME",
        default_value = "gpushare-timekeeper"
    )]
    pub lease_name: String,

    #[command(flatten)]
    pub reading: ReadingArgs,

    #[command(flatten)]
    pub client: ClientArgs,

    #[cfg(feature = "movable-clock")]
    /// For tests: a file with seconds to add to the time, or a moment at which time stands still
    #[arg(long, env = "GPUSHARE_NOW_FILE", value_name = "FILE", hide = true)]
    pub now_file: Option<PathBuf>,

    #[command(flatten)]
    pub log: LogArgs,
}

/// The configuration in use.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin_listen: Option<SocketAddr>,
    pub tls: Option<TlsFiles>,
    pub database: Database,
    pub pace: Pace,
    /// `None` if this is the only timekeeper.
    pub election: Option<Election>,
    pub dialects: Dialects,
    pub kubeconfig: Option<PathBuf>,
    pub clock: Clock,
}

/// How often the timekeeper does each part of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The length of the cells into which charged time is cut.
    pub grid: Seconds,
    /// The pause between two rounds while nothing changes.
    pub interval: Duration,
    /// The pause between two writes of a status that differ only because time has passed.
    pub status: Duration,
    /// How long individual charges are kept; `None` keeps them forever.
    pub retention: Option<Seconds>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            grid: 300,
            interval: Duration::from_secs(5),
            status: Duration::from_secs(30),
            retention: None,
        }
    }
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error(
        "--listen {0} can be reached by others, who send their tokens there: give --tls-cert and --tls-key, or listen \
         on 127.0.0.1"
    )]
    Exposed(SocketAddr),
    #[error("--database: {0}")]
    Database(#[from] DatabaseError),
    #[error("--charge-interval {0:?} is not a whole number of seconds up to {LONGEST_GRID:?}")]
    Grid(Duration),
    #[error(
        "--interval {0:?} and --status-interval {1:?} must be above zero and at most {LONGEST_INTERVAL:?}"
    )]
    Interval(Duration, Duration),
    #[error(
        "--retention {0:?} is less than a day: give at least 24h, or leave it out to keep everything"
    )]
    Retention(Duration),
    #[error("--lease-duration, --lease-renew-deadline and --lease-retry do not go together: {0}")]
    Lease(#[from] LeaseArgsError),
    #[error(transparent)]
    Reading(#[from] ReadingError),
}

impl TryFrom<RawConfig> for Config {
    type Error = ConfigError;

    fn try_from(raw: RawConfig) -> Result<Self, ConfigError> {
        let tls = raw.tls.files(None);
        if tls.is_none() && !raw.listen.ip().is_loopback() {
            return Err(ConfigError::Exposed(raw.listen));
        }
        let election = raw.lease.election(&raw.lease_name, WRITE_TIMEOUT)?;
        let files = Files {
            password: raw.database_password_file.as_deref(),
            authorities: raw.database_ca.as_deref(),
        };
        Ok(Self {
            listen: raw.listen,
            admin_listen: raw.admin.admin_listen,
            tls,
            database: Database::parse(&raw.database, files)?,
            pace: raw.pace()?,
            election,
            dialects: raw.reading.dialects()?,
            kubeconfig: raw.client.kubeconfig,
            #[cfg(feature = "movable-clock")]
            clock: raw.now_file.map_or_else(Clock::system, Clock::from_file),
            #[cfg(not(feature = "movable-clock"))]
            clock: Clock::system(),
        })
    }
}

impl RawConfig {
    fn pace(&self) -> Result<Pace, ConfigError> {
        let grid = self.charge_interval;
        if grid.is_zero() || grid > LONGEST_GRID || grid.subsec_nanos() != 0 {
            return Err(ConfigError::Grid(grid));
        }
        let (interval, status) = (self.interval, self.status_interval);
        let possible = |pause: Duration| !pause.is_zero() && pause <= LONGEST_INTERVAL;
        if !possible(interval) || !possible(status) {
            return Err(ConfigError::Interval(interval, status));
        }
        let seconds = |duration: Duration| Seconds::try_from(duration.as_secs());
        let retention = self.retention.map(|kept| {
            let day = Duration::from_hours(24);
            let whole = seconds(kept).ok().filter(|_| kept >= day);
            whole.ok_or(ConfigError::Retention(kept))
        });
        Ok(Pace {
            grid: seconds(grid).map_err(|_| ConfigError::Grid(grid))?,
            interval,
            status,
            retention: retention.transpose()?,
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
    fn the_defaults_keep_a_file_listen_on_loopback_and_elect_a_leader() {
        let config = config(&[]).unwrap();
        let file = PathBuf::from("/var/lib/gpushare/ledger.db");
        assert!(matches!(config.database, Database::Sqlite(path) if path == file));
        assert!(config.listen.ip().is_loopback());
        assert_eq!(config.pace, Pace::default());
        assert_eq!(config.election.unwrap().name, "gpushare-timekeeper");
    }

    #[test]
    fn an_address_others_can_reach_needs_tls() {
        let open = ["--listen", "0.0.0.0:12352"];
        let error = config(&open).unwrap_err().to_string();
        assert!(error.contains("--tls-cert"), "{error}");
        let tls = ["--tls-cert", "c", "--tls-key", "k"];
        assert!(config(&[&open[..], &tls].concat()).is_ok());
    }

    #[test]
    fn values_that_cannot_work_are_refused_with_what_must_hold() {
        let error = |flags: &[&str]| config(flags).unwrap_err().to_string();
        assert!(error(&["--charge-interval", "1500ms"]).contains("--charge-interval"));
        assert!(error(&["--charge-interval", "2h"]).contains("--charge-interval"));
        assert!(error(&["--interval", "0s"]).contains("--interval"));
        assert!(error(&["--status-interval", "1h"]).contains("--status-interval"));
        assert!(error(&["--retention", "1h"]).contains("24h"));
        assert!(error(&["--lease-duration", "12s"]).contains("--lease-duration"));
        assert!(error(&["--database", ""]).contains("--database"));
        let nowhere = ["--database-password-file", "/nonexistent/password"];
        let postgres = ["--database", "postgresql://gpushare@db/gpushare"];
        let wrong = error(&[&nowhere[..], &postgres].concat());
        assert!(wrong.contains("/nonexistent/password"), "{wrong}");
    }
}
