//! Metrics of the webhook. Labels come from fixed sets; nothing is labelled by pod or namespace.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::review::Outcome;

#[derive(Clone)]
pub(super) struct Metrics {
    registry: Arc<Registry>,
    reviews: Family<Labels, Counter>,
    seconds: Histogram,
    denials: Family<Reason, Counter>,
    interruptions: Family<Resource, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Resource {
    resource: &'static str,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("gpushare_webhook");
        let reviews = Family::default();
        registry.register("reviews", "Admission reviews by outcome", reviews.clone());
        // 50 µs to 1.6 s: an answer comes from memory, and the API server waits 2 s.
        let seconds = Histogram::new(exponential_buckets(0.000_05, 2.0, 16));
        let help = "Time to answer an admission review, from its first byte";
        registry.register("review_duration_seconds", help, seconds.clone());
        let denials = Family::default();
        registry.register("denials", "Pods refused, by reason", denials.clone());
        let interruptions = Family::default();
        let help = "Watches that broke and were taken up again";
        registry.register("watch_interruptions", help, interruptions.clone());
        Self {
            registry: Arc::new(registry),
            reviews,
            seconds,
            denials,
            interruptions,
        }
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    pub(super) fn answered(&self, outcome: Outcome, took: Duration) {
        self.count(outcome.label());
        self.seconds.observe(took.as_secs_f64());
        if let Outcome::Denied(reason) = outcome {
            let reason = reason.label();
            self.denials.get_or_create(&Reason { reason }).inc();
        }
    }

    /// A body that was no AdmissionReview.
    pub(super) fn unreadable(&self) {
        self.count("unreadable");
    }

    fn count(&self, outcome: &'static str) {
        self.reviews.get_or_create(&Labels { outcome }).inc();
    }

    pub(super) fn watch_interrupted(&self, resource: &'static str) {
        self.interruptions
            .get_or_create(&Resource { resource })
            .inc();
    }
}
