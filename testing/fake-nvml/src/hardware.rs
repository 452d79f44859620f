//! The machine that the fake library shows: driver, cards, processes, health events.
//!
//! Owns the format of the hardware file and its checks. Knows nothing of NVML's C interface.

mod card;
mod file;

use serde::{Deserialize, Serialize};

pub use card::{Card, Process, ProcessKind, Utilization};
pub use file::{HardwareError, update};

/// Everything a hardware file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    #[serde(default = "default_driver_version")]
    pub driver_version: String,
    #[serde(default = "default_nvml_version")]
    pub nvml_version: String,
    /// CUDA version in NVML's encoding: 1000 × major + 10 × minor.
    #[serde(default = "default_cuda_version")]
    pub cuda_version: i32,
    /// In index order: the first card is index 0.
    pub cards: Vec<Card>,
    /// Health events so far, oldest first. Clients see those that come after they subscribed.
    #[serde(default)]
    pub events: Vec<Event>,
}

/// Something that happened to a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Grows from event to event, so that each client can remember what it has seen.
    pub sequence: u64,
    pub uuid: String,
    pub kind: EventKind,
    /// For [`EventKind::Xid`] the Xid number.
    pub data: u64,
}

/// What kind of event a client subscribes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    SingleBitEcc,
    DoubleBitEcc,
    Xid,
}

impl Default for Hardware {
    fn default() -> Self {
        Self {
            driver_version: default_driver_version(),
            nvml_version: default_nvml_version(),
            cuda_version: default_cuda_version(),
            cards: Vec::new(),
            events: Vec::new(),
        }
    }
}

impl Hardware {
    /// A machine with these cards, each `(model, memory in MiB)`, in index order.
    ///
    /// UUIDs and bus ids follow from the position, so two calls give the same machine.
    pub fn with_cards(cards: &[(&str, u64)]) -> Self {
        Self::on_machine(0, cards)
    }

    /// Like [`Hardware::with_cards`], for one of several machines: the UUIDs of different machines differ.
    pub fn on_machine(machine: u32, cards: &[(&str, u64)]) -> Self {
        let cards = (0..)
            .zip(cards)
            .map(|(position, (name, memory_mib))| Card::new(machine, position, name, *memory_mib))
            .collect();
        Self {
            cards,
            ..Self::default()
        }
    }

    /// The card with this UUID.
    pub fn card(&self, uuid: &str) -> Option<&Card> {
        self.cards.iter().find(|card| card.uuid == uuid)
    }

    /// The card with this UUID, to change it.
    pub fn card_mut(&mut self, uuid: &str) -> Option<&mut Card> {
        self.cards.iter_mut().find(|card| card.uuid == uuid)
    }

    /// Lets an Xid critical error happen on a card. Returns the event's sequence number.
    pub fn push_xid(&mut self, uuid: &str, xid: u64) -> u64 {
        self.push_event(uuid, EventKind::Xid, xid)
    }

    /// Lets an event happen on a card. Returns the event's sequence number.
    pub fn push_event(&mut self, uuid: &str, kind: EventKind, data: u64) -> u64 {
        let sequence = self.last_event().saturating_add(1);
        self.events.push(Event {
            sequence,
            uuid: uuid.to_owned(),
            kind,
            data,
        });
        sequence
    }

    /// The sequence number of the newest event, 0 before the first.
    pub fn last_event(&self) -> u64 {
        self.events
            .iter()
            .map(|event| event.sequence)
            .max()
            .unwrap_or(0)
    }
}

fn default_driver_version() -> String {
    "535.309.01".to_owned()
}

fn default_nvml_version() -> String {
    "12.535.309.01".to_owned()
}

fn default_cuda_version() -> i32 {
    12_020
}
