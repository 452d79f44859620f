//! Configuration: flags and environment as typed, resolved once into what the program uses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_daemon::args::{AdminArgs, LogArgs, TlsArgs, duration};
use gpushare_daemon::tls::TlsFiles;
use gpushare_kube::args::{ClientArgs, LeaseArgs, LeaseArgsError, ReadingArgs, ReadingError};
use gpushare_kube::bind::longest_wait;
use gpushare_packing::Policy;
use thiserror::Error;

use gpushare_kube::leader::election::Election;

const MIB: usize = 1024 * 1024;
const LONGEST_BIND_TIMEOUT: Duration = Duration::from_secs(30);

/// The flags as given; every one has an environment variable.
#[derive(Args, Clone, Debug)]
pub struct RawConfig {
    /// Address to serve kube-scheduler on
    #[arg(long, env = "GPUSHARE_LISTEN", default_value = "127.0.0.1:12345")]
    pub listen: SocketAddr,

    #[command(flatten)]
    pub admin: AdminArgs,

    #[command(flatten)]
    pub tls: TlsArgs,

    /// Serve only clients with a certificate signed by this CA (PEM)
    #[arg(long, env = "GPUSHARE_CLIENT_CA", requires = "tls_cert")]
    pub client_ca: Option<PathBuf>,

    /// Allow an address that others can reach without TLS and client certificates
    #[arg(long, env = "GPUSHARE_INSECURE_LISTEN")]
    pub insecure_listen: bool,

    #[command(flatten)]
    pub reading: ReadingArgs,

    /// How to choose among nodes and cards: learned, fgd, binpack, best-fit, first-fit or spread. A pod
    /// may ask for another one with the annotation gpushare.io/policy
    #[arg(long, env = "GPUSHARE_POLICY", default_value = "learned")]
    pub policy: Policy,

    /// What filter offers to kube-scheduler: only the best node, so that nothing can overrule the choice, or all nodes that fit, which prioritize then ranks together with the scheduler's own scores
    #[arg(long, env = "GPUSHARE_OFFER", value_enum, default_value_t)]
    pub offer: Offer,

    #[command(flatten)]
    pub client: ClientArgs,

    /// How long the API server may work on one bind, such as 2s or 500ms
    #[arg(long, env = "GPUSHARE_BIND_TIMEOUT", default_value = "2s", value_parser = duration)]
    pub bind_timeout: Duration,

    #[command(flatten)]
    pub lease: LeaseArgs,

    /// Name of the lease; the same for all replicas of one extender
    #[arg(long, env = "GPUSHARE_LEASE_NAME", default_value = "gpushare-extender")]
    pub lease_name: String,

    /// Wake refused pods when they would fit; otherwise they wait until kube-scheduler retries them
    #[arg(
        long, env = "GPUSHARE_WAKE", default_value_t = true, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub wake: bool,

    /// Evict pods of lower priority where that lets a pod fit on a card
    #[arg(
        long, env = "GPUSHARE_PREEMPT", default_value_t = true, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub preempt: bool,

    /// Largest accepted request body in MiB; by default 16 MiB plus 32 KiB for each node of the cluster
    #[arg(long, env = "GPUSHARE_MAX_BODY_MIB")]
    pub max_body_mib: Option<usize>,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Which of the nodes that fit are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Offer {
    #[default]
    Best,
    All,
}

/// The configuration in use.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin_listen: Option<SocketAddr>,
    pub tls: Option<TlsFiles>,
    pub aliyun_unit: AliyunUnit,
    /// Everything that pods may ask for.
    pub dialects: Dialects,
    pub policy: Policy,
    pub offer: Offer,
    pub kubeconfig: Option<PathBuf>,
    pub bind_timeout: Duration,
    /// `None` if this is the only extender.
    pub election: Option<Election>,
    pub wake: bool,
    pub preempt: bool,
    /// `None` if the limit follows from the number of nodes.
    pub max_body: Option<usize>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error(
        "--listen {0} can be reached by others, and whoever reaches it can bind pods: give --tls-cert, \
         --tls-key and --client-ca, listen on 127.0.0.1, or allow it with --insecure-listen"
    )]
    Exposed(SocketAddr),
    #[error("--bind-timeout {0:?} is not between 100ms and {LONGEST_BIND_TIMEOUT:?}")]
    BindTimeout(Duration),
    #[error(
        "--lease-duration, --lease-renew-deadline, --lease-retry and --bind-timeout do not go together: {0}"
    )]
    Lease(LeaseArgsError),
    #[error(transparent)]
    Reading(#[from] ReadingError),
    #[error("--max-body-mib {0} is not between 1 and 1024")]
    MaxBody(usize),
}

impl TryFrom<RawConfig> for Config {
    type Error = ConfigError;

    fn try_from(raw: RawConfig) -> Result<Self, ConfigError> {
        let tls = raw.tls.files(raw.client_ca);
        let checked = tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !(raw.listen.ip().is_loopback() || checked || raw.insecure_listen) {
            return Err(ConfigError::Exposed(raw.listen));
        }
        if !(Duration::from_millis(100)..=LONGEST_BIND_TIMEOUT).contains(&raw.bind_timeout) {
            return Err(ConfigError::BindTimeout(raw.bind_timeout));
        }
        let dialects = raw.reading.dialects()?;
        let longest = longest_wait(raw.bind_timeout);
        let election = raw.lease.election(&raw.lease_name, longest);
        let election = election.map_err(ConfigError::Lease)?;
        if let Some(mib) = raw.max_body_mib.filter(|mib| !(1..=1024).contains(mib)) {
            return Err(ConfigError::MaxBody(mib));
        }
        Ok(Self {
            listen: raw.listen,
            admin_listen: raw.admin.admin_listen,
            tls,
            aliyun_unit: raw.reading.aliyun_memory_unit,
            dialects,
            policy: raw.policy,
            offer: raw.offer,
            kubeconfig: raw.client.kubeconfig,
            bind_timeout: raw.bind_timeout,
            election,
            wake: raw.wake,
            preempt: raw.preempt,
            max_body: raw.max_body_mib.map(|mib| mib * MIB),
        })
    }
}

impl Config {
    /// The defaults, for a single extender on any free port: what tests and tools start from.
    pub fn alone() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            admin_listen: None,
            tls: None,
            aliyun_unit: AliyunUnit::default(),
            dialects: gpu::dialects(AliyunUnit::default()),
            policy: Policy::default(),
            offer: Offer::default(),
            kubeconfig: None,
            bind_timeout: Duration::from_secs(2),
            election: None,
            wake: true,
            preempt: true,
            max_body: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use gpushare_core::lease::Timing;

    use super::*;
    use gpushare_daemon::args::read;

    fn config(flags: &[&str]) -> Result<Config, ConfigError> {
        read::<RawConfig>(flags.iter().copied()).unwrap().try_into()
    }

    #[test]
    fn the_defaults_listen_on_loopback_and_count_aliyun_memory_in_gib() {
        let config = config(&[]).unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:12345");
        assert_eq!(config.aliyun_unit, AliyunUnit::GiB);
        assert_eq!(config.bind_timeout, Duration::from_secs(2));
    }

    #[test]
    fn an_address_others_can_reach_needs_client_certificates_or_consent() {
        let open = ["--listen", "0.0.0.0:12345"];
        let error = config(&open).unwrap_err();
        assert!(error.to_string().contains("--insecure-listen"), "{error}");
        let tls = [&open[..], &["--tls-cert", "c", "--tls-key", "k"]].concat();
        assert!(config(&tls).is_err());
        assert!(config(&[&tls[..], &["--client-ca", "ca"]].concat()).is_ok());
        assert!(config(&[&open[..], &["--insecure-listen"]].concat()).is_ok());
    }

    #[test]
    fn replicas_elect_a_leader_unless_told_otherwise() {
        let election = |flags: &[&str]| config(flags).unwrap().election;
        let first = election(&["--replica-name", "extender-0"]).unwrap();
        assert_eq!(first.namespace, "gpushare-system");
        assert_eq!(first.timing, Timing::default());
        assert!(first.identity.starts_with("extender-0_"), "{first:?}");
        let restarted = election(&["--replica-name", "extender-0"]).unwrap();
        assert_ne!(first.identity, restarted.identity);
        assert!(election(&["--leader-elect"]).is_some());
        assert_eq!(election(&["--leader-elect=false"]), None);
    }

    #[test]
    fn a_lease_too_short_for_the_leaders_last_bind_is_refused() {
        let long_bind = ["--bind-timeout", "10s"];
        let error = config(&long_bind).unwrap_err().to_string();
        assert!(error.contains("must be at least 22106 ms"), "{error}");
        let longer = ["--lease-duration", "23s"];
        assert!(config(&[long_bind, longer].concat()).is_ok());
        let alone = ["--leader-elect=false"];
        assert!(config(&[&long_bind[..], &alone].concat()).is_ok());
        assert!(config(&["--lease-retry", "4s"]).is_err());
        assert!(config(&["--lease-name", ""]).is_err());
    }

    #[test]
    fn values_out_of_range_are_refused() {
        assert!(config(&["--bind-timeout", "5m"]).is_err());
        assert!(config(&["--max-body-mib", "0"]).is_err());
        assert!(read::<RawConfig>(["--bind-timeout", "soon"]).is_err());
        assert!(read::<RawConfig>(["--aliyun-memory-unit", "GB"]).is_err());
        assert!(read::<RawConfig>(["--tls-cert", "c"]).is_err());
    }

    #[test]
    fn further_devices_come_from_a_file_whose_mistakes_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("devices.yaml");
        let with = |text: &str| {
            std::fs::write(&file, text).unwrap();
            config(&["--devices", file.to_str().unwrap()])
        };
        let rdma = "
classes:
- name: rdma
  dimensions: [{name: bandwidth, unit: Mbit/s}]
  requests:
  - {name: rdma, parts: [{resource: rdma/bandwidth, dimension: bandwidth}]}
";
        assert!(with(rdma).unwrap().dialects.class("rdma").is_some());
        for (text, expected) in [
            (
                rdma.replace("bandwidth}]}", "speed}]}"),
                "no dimension \"speed\"",
            ),
            (rdma.replace("requests", "request"), "request"),
            ("classes: 7".to_owned(), "devices.yaml"),
        ] {
            let error = with(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(config(&["--devices", "/nonexistent"]).is_err());
    }
}
