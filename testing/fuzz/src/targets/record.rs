//! Allocation records: they read back as written, and prove a booking for their own pod only.

use std::collections::BTreeSet;

use gpushare_core::gpu;
use gpushare_core::placement::Hold;
use gpushare_core::request::{PodAsk, Role, Want};
use gpushare_core::{NodeName, Placement, PodUid, Record};
use gpushare_testkit::model::{container, share};

use super::on_text;
use crate::Verdict;

pub(super) const POD: &str = "3f0a2a4e-0b1c-4c56-9f60-8f1c2d3e4f50";
const NODE: &str = "n1";

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let Ok(record) = Record::decode(text) else {
            return Verdict::Refused;
        };
        assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
        let (pod, node, classes) = (PodUid::new(POD), NodeName::new(NODE), gpu::classes());
        let ask = ask(3072, 2);
        let Ok(placement) = record.verify(&pod, &node, &classes, &ask) else {
            return Verdict::Refused;
        };
        check_placement(&placement, &ask);
        let again = Record::new(pod.clone(), node.clone(), &classes, &placement);
        assert_eq!(
            again.verify(&pod, &node, &classes, &ask),
            Ok(placement),
            "what was believed can be written again"
        );
        let proves = |pod: &str, node: &str, memory, cards| {
            let ask = self::ask(memory, cards);
            let verified = record.verify(&pod.into(), &node.into(), &classes, &ask);
            verified.is_ok()
        };
        assert!(!proves("another-pod", NODE, 3072, 2), "another pod");
        assert!(!proves(POD, "another-node", 3072, 2), "another node");
        assert!(!proves(POD, NODE, 3073, 2), "another amount");
        assert!(!proves(POD, NODE, 3072, 1), "another number of cards");
        Verdict::Accepted
    })
}

/// Every container has what it asks for, on cards of its own.
pub(super) fn check_placement(placement: &Placement, ask: &PodAsk) {
    for asked in ask.containers.iter() {
        let placed = placement.container(&asked.class, &asked.container);
        let placed = placed.expect("every container that asks is placed");
        let cards: BTreeSet<_> = placed.shares.iter().map(|share| &share.card).collect();
        assert_eq!(Ok(asked.cards), u32::try_from(cards.len()));
        assert_eq!(cards.len(), placed.shares.len(), "a card is given twice");
        for share in &placed.shares {
            match (share.hold, asked.want) {
                (Hold::Whole, Want::Whole) => {}
                (Hold::Part(held), Want::Share(part)) => assert_eq!(held, part.amounts),
                (held, wanted) => panic!("{held:?} instead of {wanted:?}"),
            }
        }
    }
}

/// An init container on a whole card, and one with a share of each of several cards.
pub(super) fn ask(memory: u64, cards: u32) -> PodAsk {
    PodAsk {
        containers: [
            container("setup", Role::Init, 1, Want::Whole),
            container("main", Role::App, cards, share(memory)),
        ]
        .into(),
    }
}
