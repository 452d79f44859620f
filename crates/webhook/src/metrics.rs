//! Metrics of the webhook. Labels come from fixed sets; nothing is labelled by pod or namespace.

use std::sync::Arc;
use std::time::Duration;

use gpushare_daemon::labels;
use gpushare_daemon::metrics::{Catalogue, Description, Published};
use gpushare_daemon::serve::Traffic;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::review::Outcome;

/// Every metric of this role, for the reference.
pub fn metrics() -> Arc<[Description]> {
    Metrics::new().published.described
}

#[derive(Clone)]
pub(super) struct Metrics {
    published: Published,
    reviews: Family<Labels, Counter>,
    seconds: Histogram,
    denials: Family<Reason, Counter>,
    interruptions: Family<Resource, Counter>,
    pub(super) traffic: Traffic,
}

labels!(Labels {
    outcome: &'static str,
});

labels!(Reason {
    reason: &'static str,
});

labels!(Resource {
    resource: &'static str,
});

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
            interruptions: catalogue
                .add("watch_interruptions", "Watches that broke and were resumed"),
            traffic: Traffic::new(&mut catalogue),
            published: catalogue.publish(),
        }
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        self.published.registry.clone()
    }

    pub(super) fn answered(&self, outcome: Outcome, took: Duration) {
        self.count(outcome.label());
        self.seconds.observe(took.as_secs_f64());
        if let Outcome::Denied(reason) = outcome {
            let reason = reason.label();
            self.denials.get_or_create(&Reason { reason }).inc();
        }
    }

    /// A body that was not an AdmissionReview.
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
