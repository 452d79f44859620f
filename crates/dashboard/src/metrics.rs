//! Metrics of the dashboard. No label shows who views what.

use std::sync::Arc;

use gpushare_daemon::metrics::{Catalogue, Description, MetricSet, watch_interruptions};
use gpushare_daemon::serve::Traffic;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Every metric of this program, for the reference.
pub fn metrics() -> Arc<[Description]> {
    Metrics::new().published.described
}

#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    published: MetricSet,
    viewers: Gauge,
    refusals: Counter,
    interruptions: Counter,
    pub(crate) traffic: Traffic,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut catalogue = Catalogue::new("gpushare_dashboard");
        Self {
            viewers: catalogue.add("viewers", "Open live streams"),
            refusals: catalogue.add(
                "refusals",
                "Requests without a token, or with a token that lacks permission",
            ),
            interruptions: watch_interruptions(&mut catalogue),
            traffic: Traffic::new(&mut catalogue),
            published: catalogue.publish(),
        }
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.published.registry.clone()
    }

    pub(crate) fn viewers(&self, count: usize) {
        self.viewers.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn refused(&self) {
        self.refusals.inc();
    }

    pub(crate) fn interrupted(&self) {
        self.interruptions.inc();
    }
}
