//! Metrics of the timekeeper. Budgets are few and named by administrators, so they may be labels; pods and namespaces
//! are not.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gpushare_daemon::labels;
use gpushare_daemon::metrics::{
    Catalogue, Count, CountByOutcome, CountByResource, Description, MetricSet, Reading,
    watch_interruptions,
};
use gpushare_daemon::serve::Traffic;
use gpushare_ledger::Seconds;
use gpushare_ledger::money::Amount;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::api;
use super::due::DueCharges;
use super::status::Figures;
use gpushare_kube::leader::Leadership;

/// If a pod's end is charged later than this, it was not noticed in time.
const LATE: Seconds = 600;

/// Every metric of this role, for the reference.
pub fn metrics() -> Arc<[Description]> {
    Metrics::new(&Leadership::alone()).published.described
}

#[derive(Clone)]
pub(super) struct Metrics {
    published: MetricSet,
    charges: Counter,
    gpu_seconds: Counter<f64, AtomicU64>,
    settled: Counter,
    late: Counter,
    vanished: Counter,
    failures: Family<Write, Counter>,
    ledger_healthy: Gauge,
    interruptions: CountByResource,
    enforced: CountByOutcome,
    standing: Arc<RwLock<Standing>>,
    pub(super) api: api::Metrics,
    pub(super) traffic: Traffic,
}

labels!(Write {
    to: &'static str,
});

/// As of the last round; empty while another replica leads.
#[derive(Debug, Default)]
struct Standing {
    budgets: BTreeMap<String, Figures>,
    pods: u64,
}

impl Metrics {
    pub(super) fn new(leadership: &Leadership) -> Self {
        let mut catalogue = Catalogue::new("gpushare_timekeeper");
        let standing = Arc::new(RwLock::new(Standing::default()));
        leadership.register(&mut catalogue);
        let mut readings = vec![METERED_PODS];
        readings.extend(OF_EVERY_BUDGET.map(|(reading, _)| reading));
        catalogue.read(&readings, Box::new(Gauges(standing.clone())));
        let ledger_healthy: Gauge = catalogue.add(
            "ledger_healthy",
            "0 if the ledger is damaged, does not answer or has failed several times, otherwise 1",
        );
        ledger_healthy.set(1);
        Self {
            charges: catalogue.add("charges", "Charges written to the ledger"),
            gpu_seconds: catalogue.add("charged_gpu_seconds", "GPU time charged, in GPU-seconds"),
            settled: catalogue.add("settlements", "Pods whose end was charged"),
            late: catalogue.add(
                "late_settlements",
                "Pods whose end was charged more than ten minutes after it",
            ),
            vanished: catalogue.add(
                "vanished_pods",
                "Pods whose object disappeared before their end was charged",
            ),
            ledger_healthy,
            failures: catalogue.add("write_failures", "Writes that failed and are retried"),
            interruptions: watch_interruptions(&mut catalogue),
            enforced: catalogue.add(
                "enforcements",
                "Actions on pods because of their budgets, by outcome",
            ),
            api: api::Metrics::new(&mut catalogue),
            standing,
            traffic: Traffic::new(&mut catalogue),
            published: catalogue.publish(),
        }
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        self.published.registry.clone()
    }

    pub(super) fn enforced(&self, outcome: &'static str) {
        self.enforced.count(outcome);
    }

    /// What was written for one pod.
    pub(super) fn charged(&self, charged: &DueCharges, now: Seconds) {
        for charge in &charged.plan.charges {
            self.charges.inc();
            let amount = charge.amount().unwrap_or_default();
            self.gpu_seconds.inc_by(gpu_seconds(amount));
        }
        if let Some(end) = charged.plan.settle {
            self.settled.inc();
            self.late.inc_by(u64::from(now - end > LATE));
        }
    }

    pub(super) fn vanished(&self) {
        self.vanished.inc();
    }

    /// How budgets stand, and how many pods hold something.
    pub(super) fn stands(&self, budgets: &BTreeMap<String, Figures>, pods: usize) {
        *self.standing.write() = Standing {
            budgets: budgets.clone(),
            pods: pods as u64,
        };
    }

    /// How a budget stood in the last round.
    pub(super) fn standing(&self, budget: &str) -> Option<Figures> {
        self.standing.read().budgets.get(budget).cloned()
    }

    /// Another replica publishes the figures from now on.
    pub(super) fn stands_no_more(&self) {
        *self.standing.write() = Standing::default();
    }

    pub(super) fn ledger_failed(&self) {
        self.failed("ledger");
    }

    pub(super) fn ledger_is_healthy(&self, healthy: bool) {
        self.ledger_healthy.set(i64::from(healthy));
    }

    pub(super) fn status_failed(&self) {
        self.failed("status");
    }

    pub(super) fn finalizer_failed(&self) {
        self.failed("finalizer");
    }

    fn failed(&self, to: &'static str) {
        self.failures.get_or_create(&Write { to }).inc();
    }

    pub(super) fn watch_interrupted(&self, resource: &'static str) {
        self.interruptions.count(resource);
    }
}

/// Read at each scrape.
struct Gauges(Arc<RwLock<Standing>>);

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

/// One number of every budget.
type Number = fn(&Figures) -> f64;

const METERED_PODS: Reading = Reading::plain(
    "metered_pods",
    "Pods that hold cards and are charged for it",
);

const fn of_a_budget(name: &'static str, help: &'static str) -> Reading {
    Reading {
        name,
        labels: &["budget"],
        help,
    }
}

const OF_EVERY_BUDGET: [(Reading, Number); 5] = [
    (
        of_a_budget(
            "budget_remaining_gpu_seconds",
            "GPU time that is left of a budget in its current period",
        ),
        |figures| gpu_seconds(figures.standing.remaining),
    ),
    (
        of_a_budget(
            "budget_used_gpu_seconds",
            "GPU time that was charged to a budget in its current period",
        ),
        |figures| gpu_seconds(figures.sums.used),
    ),
    (
        of_a_budget(
            "budget_held_gpu_seconds",
            "GPU time that running pods have used and that is not charged yet",
        ),
        |figures| gpu_seconds(figures.sums.held),
    ),
    (
        of_a_budget(
            "budget_burn_rate",
            "Current use of a budget, in GPU-seconds per second",
        ),
        |figures| gpu_seconds(Amount::from_micros(figures.sums.rate.micros())),
    ),
    (
        of_a_budget(
            "budget_exhausted",
            "1 if nothing is left of a budget or of one of its ancestors",
        ),
        |figures| f64::from(u8::from(figures.standing.exhausted)),
    ),
];

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let standing = self.0.read();
        METERED_PODS
            .encode(&mut encoder)?
            .encode_gauge(&standing.pods)?;
        for (reading, number) in OF_EVERY_BUDGET {
            let mut metric = reading.encode(&mut encoder)?;
            for (budget, figures) in &standing.budgets {
                let labels = [("budget", budget.as_str())];
                metric
                    .encode_family(&labels)?
                    .encode_gauge(&number(figures))?;
            }
        }
        Ok(())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a metric is for looking at; the ledger is exact"
)]
fn gpu_seconds(amount: Amount) -> f64 {
    amount.micros() as f64 / 1e6
}
