//! One card of the hardware file and what runs on it.

use serde::{Deserialize, Serialize};

/// A card. Identity and size are required in the file; the other fields have defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub uuid: String,
    /// The number in `/dev/nvidiaN`.
    pub minor: u32,
    /// `DDDDDDDD:BB:DD.F` in hexadecimal, as NVML prints it.
    pub pci_bus_id: String,
    /// The model, such as `NVIDIA A10`.
    pub name: String,
    pub memory_mib: u64,
    /// Part of the memory that the driver keeps for itself.
    #[serde(default)]
    pub reserved_mib: u64,
    /// Fallen off the bus: every question about the card fails.
    #[serde(default)]
    pub lost: bool,
    #[serde(default)]
    pub processes: Vec<Process>,
    #[serde(default)]
    pub utilization: Utilization,
    #[serde(default = "default_temperature_celsius")]
    pub temperature_celsius: u32,
    #[serde(default = "default_power_milliwatts")]
    pub power_milliwatts: u32,
    #[serde(default = "default_power_limit_milliwatts")]
    pub power_limit_milliwatts: u32,
    #[serde(default = "default_persistence_mode")]
    pub persistence_mode: bool,
    /// CUDA compute capability, major and minor.
    #[serde(default = "default_compute_capability")]
    pub compute_capability: (i32, i32),
    #[serde(default)]
    pub serial: Option<String>,
    /// NUMA node of the slot; none on machines without NUMA.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// CPUs near the card; empty when unknown.
    #[serde(default)]
    pub cpus: Vec<u32>,
}

/// A process that holds memory on a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    pub pid: u32,
    pub memory_mib: u64,
    #[serde(default)]
    pub kind: ProcessKind,
}

/// Which kind of context the process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessKind {
    #[default]
    Compute,
    Graphics,
    /// A compute client of the Multi-Process Service.
    Mps,
}

/// How busy the card was over the last sample, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Utilization {
    pub gpu: u32,
    pub memory: u32,
}

impl Card {
    /// The card at a position of a machine; the same arguments give the same card.
    pub fn new(machine: u32, position: u32, name: &str, memory_mib: u64) -> Self {
        Self {
            uuid: format!("GPU-{machine:08x}-6770-4755-8000-{position:012x}"),
            minor: position,
            pci_bus_id: format!("{:08X}:{:02X}:00.0", 0, position.saturating_add(1)),
            name: name.to_owned(),
            memory_mib,
            reserved_mib: 0,
            lost: false,
            processes: Vec::new(),
            utilization: Utilization::default(),
            temperature_celsius: default_temperature_celsius(),
            power_milliwatts: default_power_milliwatts(),
            power_limit_milliwatts: default_power_limit_milliwatts(),
            persistence_mode: default_persistence_mode(),
            compute_capability: default_compute_capability(),
            serial: None,
            numa_node: None,
            cpus: Vec::new(),
        }
    }

    /// Domain, bus and device number of the bus id, if it is well formed.
    pub fn pci_address(&self) -> Option<(u32, u32, u32)> {
        let (domain, rest) = self.pci_bus_id.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        if domain.len() != 8 || bus.len() != 2 || device.len() != 2 || function.len() != 1 {
            return None;
        }
        // The parser alone would take a sign for a digit.
        let number = |text: &str| {
            u32::from_str_radix(text, 16)
                .ok()
                .filter(|_| !text.contains('+'))
        };
        number(function)?;
        Some((number(domain)?, number(bus)?, number(device)?))
    }

    /// Memory held by processes.
    pub fn used_mib(&self) -> u64 {
        self.processes
            .iter()
            .fold(0, |sum, process| sum.saturating_add(process.memory_mib))
    }
}

fn default_temperature_celsius() -> u32 {
    34
}

fn default_power_milliwatts() -> u32 {
    16_000
}

fn default_power_limit_milliwatts() -> u32 {
    150_000
}

fn default_persistence_mode() -> bool {
    true
}

fn default_compute_capability() -> (i32, i32) {
    (8, 6)
}
