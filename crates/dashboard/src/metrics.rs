//! Metrics of the dashboard. Nothing is labelled by who looks or at what.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    viewers: Gauge,
    refusals: Counter,
    interruptions: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("gpushare_dashboard");
        let (viewers, refusals, interruptions) =
            (Gauge::default(), Counter::default(), Counter::default());
        registry.register("viewers", "Open live streams", viewers.clone());
        let help = "Requests without a token, or with one that may not look";
        registry.register("refusals", help, refusals.clone());
        let help = "Watches that broke and were taken up again";
        registry.register("watch_interruptions", help, interruptions.clone());
        Self {
            registry: Arc::new(registry),
            viewers,
            refusals,
            interruptions,
        }
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
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
