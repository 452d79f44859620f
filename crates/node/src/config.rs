//! The agent's settings: as typed, and resolved.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use gpushare_core::NodeName;
use gpushare_core::gpu::{AliyunUnit, Reading};
use gpushare_daemon::args::LogArgs;
use gpushare_kube::args::ClientArgs;
use thiserror::Error;

use crate::nvml::Driver;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "gpushare-node",
    version,
    about = "The gpushare agent of one node"
)]
pub struct Cli {
    #[command(flatten)]
    pub config: RawConfig,
}

/// Flags as typed; each has an environment variable of the same meaning.
#[derive(Args, Clone, Debug)]
pub struct RawConfig {
    /// Name of the Node object of this machine
    #[arg(long, env = "NODE_NAME")]
    node_name: String,

    #[command(flatten)]
    client: ClientArgs,

    /// The kubelet's device plugin directory
    #[arg(
        long,
        env = "GPUSHARE_DEVICE_PLUGIN_DIR",
        default_value = "/var/lib/kubelet/device-plugins"
    )]
    device_plugin_dir: PathBuf,

    /// The kubelet's PodResources socket
    #[arg(
        long,
        env = "GPUSHARE_POD_RESOURCES_SOCKET",
        default_value = "/var/lib/kubelet/pod-resources/kubelet.sock"
    )]
    pod_resources_socket: PathBuf,

    /// Directory for the CDI specs of containers; emptied by a reboot
    #[arg(long, env = "GPUSHARE_CDI_DIR", default_value = "/var/run/cdi")]
    cdi_dir: PathBuf,

    /// Additional directory with the driver's own CDI specs, as nvidia-ctk writes them
    #[arg(long, env = "GPUSHARE_DRIVER_CDI_DIR", default_value = "/etc/cdi")]
    driver_cdi_dir: PathBuf,

    /// Where the host's control groups are mounted; they tell when containers have ended
    #[arg(long, env = "GPUSHARE_CGROUP_ROOT", default_value = "/sys/fs/cgroup")]
    cgroup_root: PathBuf,

    /// The NVIDIA driver's management library, as a path or as a name for the dynamic linker
    #[arg(
        long,
        env = "GPUSHARE_NVML_LIBRARY",
        default_value = "libnvidia-ml.so.1"
    )]
    nvml_library: PathBuf,

    /// Seconds between two complete scans for added and removed cards; errors and lost cards are noticed at once
    #[arg(long, env = "GPUSHARE_RESCAN_SECONDS", default_value_t = 300)]
    rescan_seconds: u64,

    /// What one aliyun.com/gpu-mem means in this cluster: GiB or MiB
    #[arg(long, env = "GPUSHARE_ALIYUN_MEMORY_UNIT", default_value = "GiB")]
    aliyun_memory_unit: AliyunUnit,

    /// How many containers can share a card through gpushare.io/gpu
    #[arg(long, env = "GPUSHARE_SLOTS_PER_CARD", default_value_t = 100)]
    slots_per_card: u32,

    /// Also serve HAMi's nvidia.com/gpu, gpumem, gpumem-percentage and gpucores. Only where no other plugin
    /// serves nvidia.com/gpu; the same value as the extender's
    #[arg(long, env = "GPUSHARE_HAMI")]
    hami: bool,

    /// How many containers can share a card through nvidia.com/gpu
    #[arg(long, env = "GPUSHARE_HAMI_SLOTS_PER_CARD", default_value_t = 10)]
    hami_slots_per_card: u32,

    /// Address for /healthz, /readyz, /metrics and /version
    #[arg(long, env = "GPUSHARE_LISTEN", default_value = "127.0.0.1:12346")]
    listen: SocketAddr,

    #[command(flatten)]
    pub log: LogArgs,
}

/// Settings that make sense together.
#[derive(Clone, Debug)]
pub struct Config {
    pub node: NodeName,
    pub kubeconfig: Option<PathBuf>,
    pub device_plugin_dir: PathBuf,
    pub pod_resources_socket: PathBuf,
    pub cdi_dir: PathBuf,
    pub driver_cdi_dir: PathBuf,
    pub cgroup_root: PathBuf,
    pub driver: Driver,
    pub reading: Reading,
    pub slots: SlotsPerCard,
    pub listen: SocketAddr,
}

/// How many containers can share a card, in the dialects that count cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotsPerCard {
    pub gpushare: u32,
    pub hami: u32,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error("the node's name is empty: set --node-name, or NODE_NAME from the field spec.nodeName")]
    NoNode,
    #[error("{flag} is {slots}: write a number from 1 to {MOST_SLOTS}")]
    Slots { flag: &'static str, slots: u32 },
    #[error("--rescan-seconds is 0: write at least 1")]
    Rescan,
}

/// More containers than the kubelet runs on a node; more devices only cost it memory.
const MOST_SLOTS: u32 = 1000;

impl TryFrom<RawConfig> for Config {
    type Error = ConfigError;

    fn try_from(raw: RawConfig) -> Result<Self, ConfigError> {
        if raw.node_name.is_empty() {
            return Err(ConfigError::NoNode);
        }
        for (flag, slots) in [
            ("--slots-per-card", raw.slots_per_card),
            ("--hami-slots-per-card", raw.hami_slots_per_card),
        ] {
            if !(1..=MOST_SLOTS).contains(&slots) {
                return Err(ConfigError::Slots { flag, slots });
            }
        }
        if raw.rescan_seconds == 0 {
            return Err(ConfigError::Rescan);
        }
        Ok(Self {
            node: NodeName::new(raw.node_name),
            kubeconfig: raw.client.kubeconfig,
            device_plugin_dir: raw.device_plugin_dir,
            pod_resources_socket: raw.pod_resources_socket,
            cdi_dir: raw.cdi_dir,
            driver_cdi_dir: raw.driver_cdi_dir,
            cgroup_root: raw.cgroup_root,
            driver: Driver {
                library: raw.nvml_library,
                rescan: Duration::from_secs(raw.rescan_seconds),
            },
            reading: Reading {
                aliyun: raw.aliyun_memory_unit,
                hami: raw.hami,
            },
            slots: SlotsPerCard {
                gpushare: raw.slots_per_card,
                hami: raw.hami_slots_per_card,
            },
            listen: raw.listen,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(flags: &[&str]) -> Result<Config, ConfigError> {
        let all = ["test", "--node-name", "n"].iter().chain(flags);
        Cli::try_parse_from(all).unwrap().config.try_into()
    }

    #[test]
    fn the_defaults_are_those_of_a_usual_node() {
        let config = config(&[]).unwrap();
        assert_eq!(config.cdi_dir, PathBuf::from("/var/run/cdi"));
        assert_eq!(config.driver.library, PathBuf::from("libnvidia-ml.so.1"));
        assert_eq!(config.reading, Reading::default());
        assert_eq!(config.slots.hami, 10);
        assert!(config.listen.ip().is_loopback());
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        for flags in [
            ["--slots-per-card", "0"],
            ["--slots-per-card", "1001"],
            ["--hami-slots-per-card", "0"],
            ["--rescan-seconds", "0"],
        ] {
            let error = config(&flags).unwrap_err();
            assert!(error.to_string().contains(flags[0]), "{error}");
        }
        let nameless = Cli::try_parse_from(["test", "--node-name", ""]).unwrap();
        assert_eq!(
            Config::try_from(nameless.config).unwrap_err(),
            ConfigError::NoNode
        );
    }
}
