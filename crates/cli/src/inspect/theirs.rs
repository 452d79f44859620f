//! Nodes and pods as the predecessor describes them: totals in the node's status, annotations on pods.

use std::collections::BTreeMap;

use gpushare_core::gpu::AliyunUnit;
use gpushare_core::names::{self, aliyun};
use gpushare_core::quantity::Quantity;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

/// A card with more units than this is counted in MiB.
const MOST_GIB: u64 = 100;

/// What a node offers: memory in units, and cards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offer {
    pub(super) memory: u64,
    pub(super) cards: u64,
}

impl Offer {
    pub(super) fn of(node: &Node) -> Self {
        let allocatable = node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref());
        Self {
            memory: amount(allocatable, names::ALIYUN_GPU_MEM),
            cards: amount(allocatable, names::ALIYUN_GPU_COUNT),
        }
    }

    /// The predecessor does not publish its unit, so it is derived from the size of a card.
    pub(super) fn unit(&self) -> Option<AliyunUnit> {
        let each = self.memory.checked_div(self.cards)?;
        Some(if each > MOST_GIB {
            AliyunUnit::MiB
        } else {
            AliyunUnit::GiB
        })
    }

    /// Each card's total; the predecessor assumes that all cards of a node have the same size.
    pub(super) fn each_card(&self) -> Vec<u64> {
        let each = self.memory.checked_div(self.cards).unwrap_or(0);
        let cards = usize::try_from(self.cards).unwrap_or(0).min(MOST_CARDS);
        vec![each; cards]
    }
}

/// No node has more; a larger number in its status is a mistake that must not become a long table.
const MOST_CARDS: usize = 1024;

/// What the pod holds according to the predecessor, in units: from its newer annotation if that can be
/// read, otherwise from the older one. Without either the pod is on the node, but on no known card.
pub(super) fn held(pod: &Pod) -> Vec<(Option<usize>, u64)> {
    let asked = asked(pod);
    if asked == 0 {
        return Vec::new();
    }
    let annotation = |name: &str| pod.metadata.annotations.as_ref()?.get(name);
    let by_card = annotation(aliyun::ALLOCATION).and_then(|text| by_card(text));
    by_card.unwrap_or_else(|| {
        let index = annotation(aliyun::IDX).and_then(|index| index.parse().ok());
        vec![(index, asked)]
    })
}

/// The sum of what the containers ask for.
fn asked(pod: &Pod) -> u64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter_map(|container| container.resources.as_ref())
        .map(|resources| amount(resources.limits.as_ref(), names::ALIYUN_GPU_MEM))
        .fold(0, u64::saturating_add)
}

/// `{"0":{"1":3}}`: container 0 holds 3 units of card 1; card -1 means that none was chosen. `None` if the text is
/// empty or has another form. The quoted numbers are parsed as the predecessor parses them.
fn by_card(text: &str) -> Option<Vec<(Option<usize>, u64)>> {
    type Cards = BTreeMap<String, u64>;
    let containers: BTreeMap<String, Option<Cards>> = serde_json::from_str(text).ok()?;
    let mut held = Vec::new();
    for (container, cards) in containers {
        container.parse::<i64>().ok()?;
        for (card, amount) in cards.unwrap_or_default() {
            let card: i64 = card.parse().ok()?;
            held.push((usize::try_from(card).ok(), amount));
        }
    }
    (!held.is_empty()).then_some(held)
}

fn amount(resources: Option<&BTreeMap<String, Text>>, name: &str) -> u64 {
    let text = resources.and_then(|resources| resources.get(name));
    let parsed = text.and_then(|text| Quantity::parse(&text.0).ok());
    parsed.map_or(0, |quantity| {
        u64::try_from(quantity.rounded_up(1)).unwrap_or(0)
    })
}
