//! A hardware file with any content is either refused or reads back as written.

use std::collections::BTreeSet;

use gpushare_fake_nvml::Hardware;
use proptest::prelude::*;
use proptest::sample::Index;

fn file() -> Vec<u8> {
    let mut hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028), ("Tesla T4", 15_360)]);
    let uuid = hardware.cards.first().unwrap().uuid.clone();
    hardware.push_xid(&uuid, 79);
    serde_json::to_vec(&hardware).unwrap()
}

proptest! {
    #[test]
    fn a_damaged_file_is_refused_or_means_something(
        damage in prop::collection::vec((any::<Index>(), "[ -~]|GPU-|null|99999999999999999999|-1"), 0..4),
        end in prop::option::weighted(0.1, any::<Index>()),
    ) {
        let mut bytes = file();
        for (at, text) in damage {
            let at = at.index(bytes.len());
            let end = (at + text.len()).min(bytes.len());
            bytes.splice(at..end, text.bytes());
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len()));
        }
        if let Ok(hardware) = Hardware::parse(&bytes) {
            let uuids: BTreeSet<&str> = hardware.cards.iter().map(|card| &*card.uuid).collect();
            prop_assert_eq!(uuids.len(), hardware.cards.len());
            let written = serde_json::to_vec(&hardware).unwrap();
            prop_assert_eq!(Hardware::parse(&written).unwrap(), hardware);
        }
    }
}
