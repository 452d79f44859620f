//! What the node offers: every resource that a pod may request is either allocated by the kubelet
//! device by device, or published as a plain total in the Node's status.
//!
//! Both are a first, coarse check by Kubernetes itself; only the extender knows which card has room.
//! No IO here.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpushare_core::Card;
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, Reading};

use crate::config::SlotsPerCard;
use crate::plugin::devices::Division;

#[derive(Clone, Debug)]
pub struct Offer {
    pub dialects: Dialects,
    /// The resources that are served as device plugins.
    pub divisions: Vec<Division>,
}

impl Offer {
    pub fn new(reading: Reading, slots: SlotsPerCard) -> Self {
        let dialects = gpu::read(reading);
        let mut divisions = vec![
            Division::Slots(slots.gpushare),
            Division::AliyunMemory(reading.aliyun),
            Division::TencentCore,
            Division::HamiSlots(slots.hami),
        ];
        divisions.retain(|division| {
            let mut named = dialects.resources();
            named.any(|name| **name == *division.resource())
        });
        Self {
            dialects,
            divisions,
        }
    }

    /// The totals of all cards together, for the Node's status.
    pub fn totals(&self, cards: &[Card]) -> BTreeMap<Arc<str>, u64> {
        let mut totals = BTreeMap::new();
        for dialect in &self.dialects.dialects {
            if let Some(count) = &dialect.count {
                totals.insert(count.resource.clone(), cards.len() as u64);
            }
            for rule in &dialect.parts {
                let of_each = cards.iter().map(|card| rule.units_of(&card.capacity));
                totals.insert(rule.resource.clone(), of_each.fold(0, u64::saturating_add));
            }
        }
        for division in &self.divisions {
            totals.remove(division.resource());
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{card, offer};

    fn served(offer: &Offer) -> Vec<&'static str> {
        let divisions = offer.divisions.iter();
        divisions.map(|division| division.resource()).collect()
    }

    #[test]
    fn every_resource_that_pods_may_name_is_offered_in_exactly_one_way() {
        for hami in [false, true] {
            let offer = offer(hami);
            let totals = offer.totals(&[]);
            let mut offered: Vec<&str> = totals.keys().map(|name| &**name).collect();
            offered.extend(served(&offer));
            offered.sort_unstable();
            let named: BTreeSet<&str> = offer.dialects.resources().map(|name| &**name).collect();
            assert_eq!(offered, Vec::from_iter(named));
        }
    }

    #[test]
    fn the_kubelet_tells_us_of_every_dialects_containers_through_one_resource() {
        let offer = offer(true);
        assert_eq!(
            served(&offer),
            [
                "gpushare.io/gpu",
                "aliyun.com/gpu-mem",
                "tencent.com/vcuda-core",
                "nvidia.com/gpu"
            ]
        );
        for dialect in &offer.dialects.dialects {
            let of_dialect = dialect.resources();
            let through = of_dialect.filter(|name| served(&offer).contains(&&***name));
            assert_eq!(through.count(), 1, "{}", dialect.name);
        }
    }

    #[test]
    fn totals_add_up_whole_units_of_each_card() {
        let cards = [card(0, 15_109), card(1, 24_564)];
        let totals: Vec<(Arc<str>, u64)> = offer(true).totals(&cards).into_iter().collect();
        let expected = [
            ("aliyun.com/gpu-count", 2),
            ("gpushare.io/gpu-core", 200),
            ("gpushare.io/gpu-mem", 39_673),
            ("nvidia.com/gpucores", 200),
            ("nvidia.com/gpumem", 39_673),
            ("nvidia.com/gpumem-percentage", 200),
            // 59 and 95: the 5 MiB and the 244 MiB that remain do not add up to a block.
            ("tencent.com/vcuda-memory", 154),
        ];
        assert_eq!(
            totals,
            expected.map(|(name, amount)| (Arc::from(name), amount))
        );
    }

    #[test]
    fn without_consent_nothing_of_nvidias_is_offered() {
        let offer = offer(false);
        let totals = offer.totals(&[card(0, 8192)]);
        let nvidias = |name: &str| name.starts_with("nvidia.com/");
        assert!(!totals.keys().any(|name| nvidias(name)), "{totals:?}");
        assert!(!served(&offer).into_iter().any(nvidias));
    }
}
