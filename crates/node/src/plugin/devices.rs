//! The device ids that the kubelet counts: opaque tokens, so many per card.
//!
//! An id never says which card a container gets; that stands in the pod's record. Ids come from the
//! card's own id, so they stay the same over reboots, and the kubelet recognises what it gave out.

use std::collections::BTreeSet;

use gpushare_core::gpu::{AliyunUnit, MEMORY};
use gpushare_core::{Card, names};
use gpushare_kubelet_api::deviceplugin::{
    Device, HEALTHY, LARGEST_MESSAGE, ListAndWatchResponse, UNHEALTHY,
};
use prost::Message;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Fewer letters would save bytes, but two cards of a node might share them.
const SHORTEST_PREFIX: usize = 6;
/// A device in the list takes at least this many bytes, so longer lists need not be built.
const LEAST_DEVICE_BYTES: u64 = 20;

/// A resource that the kubelet hands out for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// `gpushare.io/gpu`: this many containers can share a card.
    Slots(u32),
    /// `aliyun.com/gpu-mem`: one device for each whole unit of a card's memory.
    Memory(AliyunUnit),
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "{resource} in {unit} needs {devices} devices on this node, and a list of more than about 200,000 \
     is too large for the kubelet; set --aliyun-memory-unit GiB, or let pods ask for {}, which counts \
     in MiB without one device for each",
    names::GPU_MEM
)]
pub struct TooManyDevices {
    resource: &'static str,
    unit: &'static str,
    devices: u64,
}

impl Division {
    pub fn resource(self) -> &'static str {
        match self {
            Self::Slots(_) => names::GPU,
            Self::Memory(_) => names::ALIYUN_GPU_MEM,
        }
    }

    /// How the resource is called in file names.
    pub fn short_name(self) -> &'static str {
        match self {
            Self::Slots(_) => "gpu",
            Self::Memory(_) => "aliyun-mem",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Slots(_) => "slots",
            Self::Memory(unit) => unit.name(),
        }
    }

    fn count(self, card: &Card) -> u64 {
        match self {
            Self::Slots(slots) => slots.into(),
            Self::Memory(unit) => card.capacity.get(MEMORY) / unit.mib(),
        }
    }

    /// The list for the kubelet, unless it would refuse it for its size.
    pub fn devices(self, cards: &[Card]) -> Result<ListAndWatchResponse, TooManyDevices> {
        let devices = cards
            .iter()
            .fold(0_u64, |sum, card| sum.saturating_add(self.count(card)));
        let too_many = TooManyDevices {
            resource: self.resource(),
            unit: self.unit(),
            devices,
        };
        let most = LARGEST_MESSAGE as u64 / LEAST_DEVICE_BYTES;
        if devices > most {
            return Err(too_many);
        }
        let list = ListAndWatchResponse {
            devices: prefixes(cards)
                .iter()
                .zip(cards)
                .flat_map(|(prefix, card)| {
                    (0..self.count(card)).map(move |number| Device {
                        id: format!("{prefix}-{number:x}"),
                        health: if card.healthy { HEALTHY } else { UNHEALTHY }.to_owned(),
                    })
                })
                .collect(),
        };
        if list.encoded_len() > LARGEST_MESSAGE {
            return Err(too_many);
        }
        Ok(list)
    }
}

/// A short name for each card, the same on every start.
fn prefixes(cards: &[Card]) -> Vec<String> {
    let hashes: Vec<String> = cards
        .iter()
        .map(|card| hex(&Sha256::digest(card.id.as_str())))
        .collect();
    let cut = |length: usize| -> Vec<String> {
        let short = hashes.iter().map(|hash| hash.get(..length).unwrap_or(hash));
        short.map(str::to_owned).collect()
    };
    (SHORTEST_PREFIX..2 * Sha256::output_size())
        .map(cut)
        .find(|prefixes| {
            let distinct: BTreeSet<&String> = prefixes.iter().collect();
            distinct.len() == prefixes.len()
        })
        .unwrap_or(hashes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.extend(char::from_digit(u32::from(byte >> 4), 16));
        text.extend(char::from_digit(u32::from(byte & 15), 16));
    }
    text
}

#[cfg(test)]
mod tests {
    use gpushare_core::Amounts;

    use super::*;

    fn card(id: &str, mib: u64) -> Card {
        Card {
            id: id.into(),
            class: "gpu".into(),
            index: 0,
            model: "A10".into(),
            capacity: Amounts::of(MEMORY, mib),
            healthy: true,
        }
    }

    fn ids(list: &ListAndWatchResponse) -> BTreeSet<&str> {
        list.devices.iter().map(|device| &*device.id).collect()
    }

    #[test]
    fn every_whole_unit_of_each_card_is_one_device() {
        let cards = [card("GPU-a", 15_109), card("GPU-b", 2_048)];
        let list = Division::Memory(AliyunUnit::GiB).devices(&cards).unwrap();
        assert_eq!(ids(&list).len(), 14 + 2);
        let list = Division::Slots(100).devices(&cards).unwrap();
        assert_eq!(ids(&list).len(), 200);
    }

    #[test]
    fn ids_do_not_depend_on_the_order_of_cards() {
        let (a, b) = (card("GPU-a", 2_048), card("GPU-b", 2_048));
        let division = Division::Slots(3);
        let one = division.devices(&[a.clone(), b.clone()]).unwrap();
        let other = division.devices(&[b, a]).unwrap();
        assert_eq!(ids(&one), ids(&other));
    }

    #[test]
    fn devices_of_a_sick_card_are_unhealthy() {
        let mut cards = [card("GPU-a", 2_048), card("GPU-b", 2_048)];
        cards[1].healthy = false;
        let list = Division::Slots(5).devices(&cards).unwrap();
        let sick = list.devices.iter().filter(|d| d.health == UNHEALTHY);
        assert_eq!(sick.count(), 5);
    }

    #[test]
    fn a_list_in_mib_is_given_while_the_kubelet_can_take_it() {
        let small = [card("GPU-a", 40_960), card("GPU-b", 40_960)];
        let list = Division::Memory(AliyunUnit::MiB).devices(&small).unwrap();
        assert!(list.encoded_len() <= LARGEST_MESSAGE);
        assert_eq!(list.devices.len(), 81_920);
    }

    #[test]
    fn a_list_in_mib_that_the_kubelet_would_refuse_is_not_made_and_the_way_out_is_named() {
        for count in [3, 8, 16] {
            let cards: Vec<Card> = (0..count)
                .map(|n| card(&format!("GPU-{n}"), 81_920))
                .collect();
            let refused = Division::Memory(AliyunUnit::MiB)
                .devices(&cards)
                .unwrap_err();
            let message = refused.to_string();
            assert!(message.contains("--aliyun-memory-unit GiB"), "{message}");
            assert!(message.contains("gpushare.io/gpu-mem"), "{message}");
        }
    }
}
