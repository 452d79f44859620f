//! Metrics of the agent.

use std::sync::Arc;
use std::time::Duration;

use gpushare_core::Card;
use gpushare_daemon::labels;
use gpushare_daemon::metrics::{Catalogue, Description};
use gpushare_daemon::serve::Traffic;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::start::Refusal;

labels!(Start {
    resource: &'static str,
    /// `started`, or the kind of refusal.
    outcome: &'static str,
});

labels!(Resource {
    resource: &'static str,
});

labels!(Health {
    health: &'static str,
});

/// Every metric of the agent, for the reference.
pub fn metrics() -> Arc<[Description]> {
    let mut catalogue = catalogue();
    let _ = Metrics::new(&mut catalogue);
    catalogue.publish().described
}

pub(crate) fn catalogue() -> Catalogue {
    Catalogue::new("gpushare_node")
}

/// Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    starts: Family<Start, Counter>,
    start_seconds: Histogram,
    registered: Family<Resource, Gauge>,
    cards: Family<Health, Gauge>,
    pods_with_specs: Gauge,
    pub(crate) traffic: Traffic,
}

impl Metrics {
    pub fn new(catalogue: &mut Catalogue) -> Self {
        // From half a millisecond to the kubelet's timeout of 30 s.
        let start_seconds = Histogram::new(exponential_buckets(0.0005, 3.0, 11));
        Self {
            traffic: Traffic::new(catalogue),
            starts: catalogue.add(
                "container_starts",
                "Container starts that the kubelet asked for, by outcome",
            ),
            start_seconds: catalogue.add_made(
                "container_start_seconds",
                "Time to prepare or refuse the start of a container",
                start_seconds,
            ),
            registered: catalogue.add(
                "registered",
                "1 if this resource is registered with the kubelet, otherwise 0",
            ),
            cards: catalogue.add("cards", "Cards of the node"),
            pods_with_specs: catalogue
                .add("pods_with_specs", "Pods that have CDI specs on the node"),
        }
    }

    /// A container start was prepared, or refused for a reason.
    pub fn started(&self, resource: &'static str, refusal: Option<&Refusal>, took: Duration) {
        let outcome = refusal.map_or("started", Refusal::kind);
        self.starts
            .get_or_create(&Start { resource, outcome })
            .inc();
        self.start_seconds.observe(took.as_secs_f64());
    }

    pub fn registered(&self, resource: &'static str, registered: bool) {
        let gauge = self.registered.get_or_create(&Resource { resource });
        gauge.set(registered.into());
    }

    pub fn is_registered(&self, resource: &'static str) -> bool {
        self.registered.get_or_create(&Resource { resource }).get() > 0
    }

    pub fn cards(&self, cards: &[Card]) {
        let healthy = cards.iter().filter(|card| card.healthy).count();
        for (health, count) in [("healthy", healthy), ("sick", cards.len() - healthy)] {
            let gauge = self.cards.get_or_create(&Health { health });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    pub fn pods_with_specs(&self, count: usize) {
        self.pods_with_specs
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
