//! Inventories: they read back as written, and contain no card twice.

use std::collections::BTreeSet;

use gpushare_core::{Classes, DeviceClass, gpu, inventory};

use super::on_text;
use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let classes = two_classes();
        let Ok(cards) = inventory::decode(&classes, text) else {
            return Verdict::Refused;
        };
        let ids: BTreeSet<_> = cards.iter().map(|card| &card.id).collect();
        assert_eq!(ids.len(), cards.len(), "a card is listed twice");
        assert!(cards.iter().all(|card| classes.get(&card.class).is_some()));
        let written = inventory::encode(&classes, &cards);
        assert_eq!(inventory::decode(&classes, &written), Ok(cards));
        Verdict::Accepted
    })
}

/// GPUs, and network cards.
pub(super) fn two_classes() -> Classes {
    let network = DeviceClass::new("rdma", &[("bandwidth", "Gbit/s")]).expect("one dimension");
    [gpu::class(), network].into_iter().collect()
}
