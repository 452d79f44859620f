//! Metrics of the extender. Labels come from fixed sets; nothing is labelled by pod or node.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use gpushare_books::reasons::Refusal;
use gpushare_books::{Bells, Books};
use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::ledger::{BookingState, NodeView};
use gpushare_daemon::labels;
use gpushare_daemon::metrics::{Catalogue, Description, MetricSet, Reading};
use gpushare_daemon::serve::Traffic;
use gpushare_packing::Policy;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use gpushare_kube::leader::Leadership;

/// Every metric of this role, for the reference.
pub fn metrics() -> Arc<[Description]> {
    let books = Books::new(gpu::classes(), Policy::default(), Bells::default());
    let metrics = Metrics::new(Arc::new(RwLock::new(books)), &Leadership::alone());
    metrics.published.described
}

#[derive(Clone)]
pub(super) struct Metrics {
    published: MetricSet,
    requests: Family<VerbCode, Counter>,
    seconds: Family<Verb, Histogram>,
    refusals: Family<Reason, Counter>,
    binds: Family<Outcome, Counter>,
    fences: Family<Outcome, Counter>,
    wakes: Family<Outcome, Counter>,
    preemptions: Family<Outcome, Counter>,
    evictions: Family<Outcome, Counter>,
    interruptions: Family<Resource, Counter>,
    pub(super) traffic: Traffic,
}

labels!(Verb {
    verb: &'static str,
});

labels!(VerbCode {
    verb: &'static str,
    code: u16,
});

labels!(Reason {
    reason: &'static str,
});

labels!(Outcome {
    outcome: &'static str,
});

labels!(Resource {
    resource: &'static str,
});

impl Metrics {
    pub(super) fn new(books: Arc<RwLock<Books>>, leadership: &Leadership) -> Self {
        let mut catalogue = Catalogue::new("gpushare_extender");
        // 0.1 ms to 6.5 s: filter answers from memory, bind waits for the API server.
        let histogram = || Histogram::new(exponential_buckets(0.0001, 2.0, 17));
        let seconds: Family<Verb, Histogram> = Family::new_with_constructor(histogram);
        leadership.register(&mut catalogue);
        catalogue.read(
            &[
                BOOKINGS,
                PODS,
                WAITING,
                CLAIMS,
                CARDS,
                CARD_MEMORY,
                BOOKED_MEMORY,
            ],
            Box::new(BookReadings(books)),
        );
        Self {
            requests: catalogue.add("requests", "Requests by verb and HTTP code"),
            seconds: catalogue.add_made(
                "request_duration_seconds",
                "Time to answer a request",
                seconds,
            ),
            refusals: catalogue.add("refusals", "Nodes not offered to a pod, by reason"),
            binds: catalogue.add("binds", "Binds by outcome"),
            fences: catalogue.add(
                "fences",
                "Writes that void all earlier requests about a pod, by outcome",
            ),
            wakes: catalogue.add(
                "wakes",
                "Waiting pods that would fit and were woken, by outcome",
            ),
            preemptions: catalogue.add(
                "preemptions",
                "Searches for pods to evict for another pod, by outcome",
            ),
            evictions: catalogue.add(
                "evictions",
                "Evictions of pods in favor of pods of higher priority, by outcome",
            ),
            interruptions: catalogue
                .add("watch_interruptions", "Watches that broke and were resumed"),
            traffic: Traffic::new(&mut catalogue),
            published: catalogue.publish(),
        }
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        self.published.registry.clone()
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

    /// Counts nodes that were not offered, by the reason of the refusal.
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

    pub(super) fn fenced(&self, outcome: &'static str) {
        self.fences.get_or_create(&Outcome { outcome }).inc();
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

const BOOKINGS: Reading = Reading {
    name: "bookings",
    labels: &["state"],
    help: "Pods booked",
};
const PODS: Reading = Reading::plain("pods", "Pods that ask for devices and have not ended");
const WAITING: Reading = Reading::plain("waiting_pods", "Refused pods that wait for room");
const CLAIMS: Reading = Reading::plain("claims", "Pods for which room is claimed");
const CARDS: Reading = Reading::plain("cards", "Cards published by nodes");
const CARD_MEMORY: Reading = Reading::plain("card_memory_mib", "Memory of all cards in MiB");
const BOOKED_MEMORY: Reading = Reading::plain("booked_memory_mib", "Memory booked on cards in MiB");

/// What the ledger holds, read at each scrape.
struct BookReadings(Arc<RwLock<Books>>);

impl fmt::Debug for BookReadings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BookReadings")
    }
}

impl Collector for BookReadings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Sums {
            bookings,
            pods,
            waiting,
            claims,
            cards,
            size,
            booked,
        } = Sums::of(&self.0.read());
        let mut metric = BOOKINGS.encode(&mut encoder)?;
        for (state, count) in bookings {
            let labels = [("state", state)];
            metric.encode_family(&labels)?.encode_gauge(&count)?;
        }
        for (reading, value) in [
            (PODS, pods),
            (WAITING, waiting),
            (CLAIMS, claims),
            (CARDS, cards),
            (CARD_MEMORY, size),
            (BOOKED_MEMORY, booked),
        ] {
            reading.encode(&mut encoder)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

struct Sums {
    bookings: [(&'static str, u64); 5],
    pods: u64,
    waiting: u64,
    claims: u64,
    cards: u64,
    size: u64,
    booked: u64,
}

impl Sums {
    fn of(books: &Books) -> Self {
        let ledger = books.ledger();
        let count = |wanted: BookingState| {
            let matching = ledger
                .bookings()
                .filter(|(_, booking)| booking.state == wanted);
            matching.count() as u64
        };
        let mut sums = Self {
            bookings: [
                ("reserved", count(BookingState::Reserved)),
                ("in_doubt", count(BookingState::InDoubt)),
                ("settled", count(BookingState::Settled)),
                ("confirmed", count(BookingState::Confirmed)),
                ("outlived", count(BookingState::Outlived)),
            ],
            pods: books.pods().count() as u64,
            waiting: books.waiting().count() as u64,
            claims: books.preemptions().count() as u64,
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
