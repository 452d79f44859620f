//! Equal requests of many pods, kept once: replicas of one workload ask for the same, and there are
//! tens of thousands of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpushare_core::PodAsk;

/// Below this number of requests it is not worth looking for unused ones.
const FEW: usize = 256;

/// Every distinct request that a pod may still use.
#[derive(Debug, Default)]
pub(super) struct Asks {
    known: BTreeSet<PodAsk>,
    /// At this size unused ones are dropped.
    full: usize,
}

impl Asks {
    /// The request, shared with the pods that asked for the same before.
    pub(super) fn shared(&mut self, ask: PodAsk) -> PodAsk {
        if let Some(known) = self.known.get(&ask) {
            return known.clone();
        }
        if self.known.len() >= self.full {
            self.known
                .retain(|ask| Arc::strong_count(&ask.containers) > 1);
            self.full = (self.known.len() * 2).max(FEW);
        }
        self.known.insert(ask.clone());
        ask
    }
}

#[cfg(test)]
mod tests {
    use gpushare_core::Amounts;
    use gpushare_core::request::{ContainerAsk, Role, Want};

    use super::*;

    fn ask(memory: u64) -> PodAsk {
        PodAsk {
            containers: [ContainerAsk {
                container: "c".into(),
                role: Role::App,
                index: 0,
                class: "gpu".into(),
                dialect: "ours".into(),
                cards: 1,
                want: Want::share(Amounts::of(0, memory)),
                limit: Amounts::ZERO,
                choice: Arc::default(),
            }]
            .into(),
        }
    }

    #[test]
    fn equal_requests_are_one_and_others_are_not() {
        let mut asks = Asks::default();
        let first = asks.shared(ask(1));
        assert!(Arc::ptr_eq(
            &asks.shared(ask(1)).containers,
            &first.containers
        ));
        assert_eq!(asks.shared(ask(2)), ask(2));
    }

    #[test]
    fn what_nobody_uses_any_more_is_dropped() {
        let mut asks = Asks::default();
        let kept = asks.shared(ask(0));
        for memory in 1..10_000 {
            asks.shared(ask(memory));
        }
        assert!(asks.known.len() <= FEW, "{}", asks.known.len());
        assert!(Arc::ptr_eq(
            &asks.shared(ask(0)).containers,
            &kept.containers
        ));
    }
}
