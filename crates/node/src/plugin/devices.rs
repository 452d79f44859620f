//! The device ids that the kubelet counts: opaque tokens, a number of them for each card.
//!
//! An id never says which card a container gets; that is in the pod's record. Ids are derived from the
//! card's own id, so they stay the same over reboots, and the kubelet recognises those it allocated.

use std::collections::BTreeSet;

use gpushare_core::gpu::{self, AliyunUnit, CORE, MEMORY, WHOLE_CORE};
use gpushare_core::request::{ContainerAsk, Want};
use gpushare_core::{Amounts, Card, names};
use gpushare_kubelet_api::deviceplugin::{
    Device, HEALTHY, LARGEST_MESSAGE, ListAndWatchResponse, UNHEALTHY,
};
use prost::Message;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Fewer letters would save bytes, but two cards of a node might share them.
const SHORTEST_PREFIX: usize = 6;
/// A device in the list takes at least this many bytes, so a list that is certainly too long need not be built.
const LEAST_DEVICE_BYTES: u64 = 20;

/// A resource that the kubelet allocates for us. This is how we learn that a container starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// `gpushare.io/gpu`: this many containers can share a card.
    Slots(u32),
    /// `aliyun.com/gpu-mem`: one device for each whole unit of a card's memory.
    AliyunMemory(AliyunUnit),
    /// `tencent.com/vcuda-core`: one device for each percent of a card.
    TencentCore,
    /// `nvidia.com/gpu`: this many containers can share a card.
    HamiSlots(u32),
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
            Self::AliyunMemory(_) => names::ALIYUN_GPU_MEM,
            Self::TencentCore => names::tencent::CORE,
            Self::HamiSlots(_) => names::hami::GPU,
        }
    }

    /// The name of the resource in file names.
    pub fn short_name(self) -> &'static str {
        match self {
            Self::Slots(_) => "gpu",
            Self::AliyunMemory(_) => "aliyun-mem",
            Self::TencentCore => "tencent-core",
            Self::HamiSlots(_) => "hami-gpu",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Slots(_) | Self::HamiSlots(_) => "slots",
            Self::AliyunMemory(unit) => unit.name(),
            Self::TencentCore => "percents",
        }
    }

    fn count(self, card: &Card) -> u64 {
        match self {
            Self::Slots(slots) | Self::HamiSlots(slots) => slots.into(),
            Self::AliyunMemory(unit) => card.capacity.get(MEMORY) / unit.mib(),
            Self::TencentCore => WHOLE_CORE,
        }
    }

    /// How many of these devices the kubelet must have allocated to a container with this request.
    pub fn asked(self, ask: &ContainerAsk) -> u64 {
        let cards = u64::from(ask.cards);
        let fixed = |dimension| ask.want.on(&Amounts::ZERO).get(dimension);
        match (self, &*ask.dialect) {
            (Self::Slots(_), gpu::OURS) | (Self::HamiSlots(_), gpu::HAMI) => cards,
            (Self::AliyunMemory(unit), gpu::ALIYUN) => fixed(MEMORY) / unit.mib(),
            (Self::TencentCore, gpu::TENCENT) => match ask.want {
                Want::Whole => cards.saturating_mul(WHOLE_CORE),
                Want::Share(_) => fixed(CORE),
            },
            _ => 0,
        }
    }

    /// The list for the kubelet, or an error if it is too long for the kubelet to accept.
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

/// A short name for each card, the same at every start of the agent.
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
    use super::*;
    use crate::testing::PodMaker;

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

    const GIB: Division = Division::AliyunMemory(AliyunUnit::GiB);
    const MIB: Division = Division::AliyunMemory(AliyunUnit::MiB);

    fn ids(list: &ListAndWatchResponse) -> BTreeSet<&str> {
        list.devices.iter().map(|device| &*device.id).collect()
    }

    #[test]
    fn every_whole_unit_of_each_card_is_one_device() {
        let cards = [card("GPU-a", 15_109), card("GPU-b", 2_048)];
        let list = GIB.devices(&cards).unwrap();
        assert_eq!(ids(&list).len(), 14 + 2);
        for division in [Division::Slots(100), Division::TencentCore] {
            let list = division.devices(&cards).unwrap();
            assert_eq!(ids(&list).len(), 200);
        }
        let list = Division::HamiSlots(10).devices(&cards).unwrap();
        assert_eq!(ids(&list).len(), 20);
    }

    #[test]
    fn the_devices_that_a_container_must_hold_follow_from_its_request() {
        type Limits = &'static [(&'static str, u64)];
        let divisions = [
            Division::Slots(100),
            GIB,
            Division::TencentCore,
            Division::HamiSlots(10),
        ];
        let table: [(Limits, [u64; 4]); 8] = [
            (&[(names::GPU, 1)], [1, 0, 0, 0]),
            (&[(names::GPU, 4), (names::GPU_MEM, 3072)], [4, 0, 0, 0]),
            (&[(names::ALIYUN_GPU_MEM, 3)], [0, 3, 0, 0]),
            (
                &[(names::ALIYUN_GPU_MEM, 3), (names::ALIYUN_GPU_COUNT, 2)],
                [0, 3, 0, 0],
            ),
            (
                &[(names::tencent::CORE, 30), (names::tencent::MEMORY, 10)],
                [0, 0, 30, 0],
            ),
            (&[(names::tencent::CORE, 200)], [0, 0, 200, 0]),
            (&[(names::hami::GPU, 2)], [0, 0, 0, 2]),
            (
                &[(names::hami::GPU, 2), (names::hami::MEMORY_PERCENT, 50)],
                [0, 0, 0, 2],
            ),
        ];
        for (limits, expected) in table {
            let ask = PodMaker::new("a").asking("app", limits).ask();
            let asked = divisions.map(|division| division.asked(&ask.containers[0]));
            assert_eq!(asked, expected, "{limits:?}");
        }
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
        let list = MIB.devices(&small).unwrap();
        assert!(list.encoded_len() <= LARGEST_MESSAGE);
        assert_eq!(list.devices.len(), 81_920);
    }

    #[test]
    fn a_list_in_mib_that_the_kubelet_would_refuse_is_not_made_and_the_way_out_is_named() {
        for count in [3, 8, 16] {
            let cards: Vec<Card> = (0..count)
                .map(|n| card(&format!("GPU-{n}"), 81_920))
                .collect();
            let refused = MIB.devices(&cards).unwrap_err();
            let message = refused.to_string();
            assert!(message.contains("--aliyun-memory-unit GiB"), "{message}");
            assert!(message.contains("gpushare.io/gpu-mem"), "{message}");
        }
    }
}
