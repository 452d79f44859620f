//! Metrics of the extender. Labels come from fixed sets; nothing is labelled by pod or node.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use gpushare_core::gpu::MEMORY;
use gpushare_core::ledger::{NodeView, State as Booked};
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::reasons::Refusal;
use super::state::State;
use crate::leader::Leadership;

#[derive(Clone)]
pub(super) struct Metrics {
    registry: Arc<Registry>,
    requests: Family<VerbCode, Counter>,
    seconds: Family<Verb, Histogram>,
    refusals: Family<Reason, Counter>,
    binds: Family<Outcome, Counter>,
    wakes: Family<Outcome, Counter>,
    preemptions: Family<Outcome, Counter>,
    evictions: Family<Outcome, Counter>,
    interruptions: Family<Resource, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Verb {
    verb: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerbCode {
    verb: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Resource {
    resource: &'static str,
}

impl Metrics {
    pub(super) fn new(state: Arc<RwLock<State>>, leadership: &Leadership) -> Self {
        let mut registry = Registry::with_prefix("gpushare_extender");
        let requests = Family::default();
        registry.register(
            "requests",
            "Requests by verb and HTTP code",
            requests.clone(),
        );
        // 0.1 ms to 6.5 s: filter answers from memory, bind waits for the API server.
        let histogram = || Histogram::new(exponential_buckets(0.0001, 2.0, 17));
        let seconds: Family<Verb, Histogram> = Family::new_with_constructor(histogram);
        let help = "Time to answer a request";
        registry.register("request_duration_seconds", help, seconds.clone());
        let refusals = Family::default();
        let help = "Nodes not offered to a pod, by reason";
        registry.register("refusals", help, refusals.clone());
        let binds = Family::default();
        registry.register("binds", "Binds by outcome", binds.clone());
        let wakes = Family::default();
        let help = "Waiting pods that would fit and were woken, by outcome";
        registry.register("wakes", help, wakes.clone());
        let preemptions = Family::default();
        let help = "Looks for pods that could go for another, and what came of them";
        registry.register("preemptions", help, preemptions.clone());
        let evictions = Family::default();
        let help = "Evictions of pods for others of higher priority";
        registry.register("evictions", help, evictions.clone());
        let interruptions = Family::default();
        let help = "Watches that broke and were taken up again";
        registry.register("watch_interruptions", help, interruptions.clone());
        leadership.register(&mut registry);
        registry.register_collector(Box::new(Books(state)));
        Self {
            registry: Arc::new(registry),
            requests,
            seconds,
            refusals,
            binds,
            wakes,
            preemptions,
            evictions,
            interruptions,
        }
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    pub(super) fn answered(&self, verb: &'static str, code: StatusCode, took: Duration) {
        let labels = VerbCode {
            verb,
            code: code.as_u16(),
        };
        self.requests.get_or_create(&labels).inc();
        self.seconds
            .get_or_create(&Verb { verb })
            .observe(took.as_secs_f64());
    }

    /// Counts nodes that were not offered.
    pub(super) fn refused(&self, refusals: impl Iterator<Item = (Refusal, u64)>) {
        for (refusal, nodes) in refusals {
            let reason = refusal.label();
            self.refusals
                .get_or_create(&Reason { reason })
                .inc_by(nodes);
        }
    }

    pub(super) fn bound(&self, outcome: &'static str) {
        self.binds.get_or_create(&Outcome { outcome }).inc();
    }

    pub(super) fn woken(&self, outcome: &'static str) {
        self.wakes.get_or_create(&Outcome { outcome }).inc();
    }

    pub(super) fn preempted(&self, outcome: &'static str) {
        self.preemptions.get_or_create(&Outcome { outcome }).inc();
    }

    pub(super) fn evicted(&self, outcome: &'static str) {
        self.evictions.get_or_create(&Outcome { outcome }).inc();
    }

    pub(super) fn watch_interrupted(&self, resource: &'static str) {
        self.interruptions
            .get_or_create(&Resource { resource })
            .inc();
    }
}

/// What the ledger holds, read at each scrape.
struct Books(Arc<RwLock<State>>);

impl fmt::Debug for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Books")
    }
}

impl Collector for Books {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Sums {
            bookings,
            waiting,
            claims,
            cards,
            size,
            booked,
        } = Sums::of(&self.0.read());
        let gauge = MetricType::Gauge;
        let mut metric = encoder.encode_descriptor("bookings", "Pods booked", None, gauge)?;
        for (state, count) in bookings {
            let labels = [("state", state)];
            metric.encode_family(&labels)?.encode_gauge(&count)?;
        }
        for (name, help, value) in [
            ("waiting_pods", "Refused pods that wait for room", waiting),
            ("claims", "Pods for which room is claimed", claims),
            ("cards", "Cards published by nodes", cards),
            ("card_memory_mib", "Memory of all cards in MiB", size),
            ("booked_memory_mib", "Memory booked on cards in MiB", booked),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, gauge)?;
            metric.encode_gauge(&value)?;
        }
        Ok(())
    }
}

struct Sums {
    bookings: [(&'static str, u64); 4],
    waiting: u64,
    claims: u64,
    cards: u64,
    size: u64,
    booked: u64,
}

impl Sums {
    fn of(state: &State) -> Self {
        let ledger = state.ledger();
        let count = |wanted: Booked| {
            let matching = ledger
                .bookings()
                .filter(|(_, booking)| booking.state == wanted);
            matching.count() as u64
        };
        let mut sums = Self {
            bookings: [
                ("reserved", count(Booked::Reserved)),
                ("in_doubt", count(Booked::InDoubt)),
                ("settled", count(Booked::Settled)),
                ("confirmed", count(Booked::Confirmed)),
            ],
            waiting: state.waiting_count() as u64,
            claims: state.preemption_count() as u64,
            cards: 0,
            size: 0,
            booked: 0,
        };
        for view in ledger.nodes().flat_map(NodeView::cards) {
            sums.cards += 1;
            sums.size = sums.size.saturating_add(view.card.capacity.get(MEMORY));
            sums.booked = sums.booked.saturating_add(view.used.get(MEMORY));
        }
        sums
    }
}
