//! Metrics of the webhook. Labels come from fixed sets; nothing is labelled by pod or namespace.

use std::sync::Arc;
use std::time::Duration;

use gpushare_daemon::metrics::{
    Catalogue, Count, CountByOutcome, CountByReason, CountByResource, Description, MetricSet,
    watch_interruptions,
};
use gpushare_daemon::serve::Traffic;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::review::Outcome;

/// Every metric of this role, for the reference.
pub fn metrics() -> Arc<[Description]> {
    Metrics::new().published.described
}

#[derive(Clone)]
pub(super) struct Metrics {
    published: MetricSet,
    reviews: CountByOutcome,
    seconds: Histogram,
    denials: CountByReason,
    interruptions: CountByResource,
    pub(super) traffic: Traffic,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut catalogue = Catalogue::new("gpushare_webhook");
        // 50 µs to 1.6 s: an answer comes from memory, and the API server waits 2 s.
        let seconds = Histogram::new(exponential_buckets(0.000_05, 2.0, 16));
        Self {
            reviews: catalogue.add("reviews", "Admission reviews by outcome"),
            seconds: catalogue.add_made(
                "review_duration_seconds",
                "Time to answer an admission review, from its first byte",
                seconds,
            ),
            denials: catalogue.add("denials", "Pods refused, by reason"),
            interruptions: watch_interruptions(&mut catalogue),
            traffic: Traffic::new(&mut catalogue),
            published: catalogue.publish(),
        }
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        self.published.registry.clone()
    }

    pub(super) fn answered(&self, outcome: Outcome, took: Duration) {
        self.reviews.count(outcome.label());
        self.seconds.observe(took.as_secs_f64());
        if let Outcome::Denied(reason) = outcome {
            self.denials.count(reason.label());
        }
    }

    /// A body that was not an AdmissionReview.
    pub(super) fn unreadable(&self) {
        self.reviews.count("unreadable");
    }

    pub(super) fn watch_interrupted(&self, resource: &'static str) {
        self.interruptions.count(resource);
    }
}
