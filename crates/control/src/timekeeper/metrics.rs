//! Metrics of the timekeeper. Budgets are few and named by administrators, so they may be labels; pods and namespaces
//! are not.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gpushare_timekeeper::Seconds;
use gpushare_timekeeper::money::Amount;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::api;
use super::due::Charged;
use super::status::Figures;
use crate::leader::Leadership;

/// A pod whose end is charged later than this was not seen in time.
const LATE: Seconds = 600;

#[derive(Clone)]
pub(super) struct Metrics {
    registry: Arc<Registry>,
    charges: Counter,
    gpu_seconds: Counter<f64, AtomicU64>,
    settled: Counter,
    late: Counter,
    vanished: Counter,
    failures: Family<Write, Counter>,
    interruptions: Family<Resource, Counter>,
    enforced: Family<Enforced, Counter>,
    standing: Arc<RwLock<Standing>>,
    pub(super) api: api::Metrics,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Resource {
    resource: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Write {
    to: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Enforced {
    outcome: &'static str,
}

/// As of the last round; nothing while another replica leads.
#[derive(Debug, Default)]
struct Standing {
    budgets: BTreeMap<String, Figures>,
    pods: u64,
}

impl Metrics {
    pub(super) fn new(leadership: &Leadership) -> Self {
        let mut registry = Registry::with_prefix("gpushare_timekeeper");
        let counter = |registry: &mut Registry, name: &str, help: &str| {
            let counter: Counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let charges = counter(&mut registry, "charges", "Charges written to the ledger");
        let gpu_seconds = Counter::default();
        let help = "GPU time charged, in GPU-seconds";
        registry.register("charged_gpu_seconds", help, gpu_seconds.clone());
        let settled = counter(&mut registry, "settlements", "Pods whose end was charged");
        let help = "Pods whose end was charged more than ten minutes after it";
        let late = counter(&mut registry, "late_settlements", help);
        let help = "Pods whose object went before their end was charged";
        let vanished = counter(&mut registry, "vanished_pods", help);
        let failures = Family::default();
        let help = "Writes that failed and are tried again";
        registry.register("write_failures", help, failures.clone());
        let interruptions = Family::default();
        let help = "Watches that broke and were taken up again";
        registry.register("watch_interruptions", help, interruptions.clone());
        let enforced = Family::default();
        let help = "What was done to pods because of their budgets";
        registry.register("enforcements", help, enforced.clone());
        leadership.register(&mut registry);
        let standing = Arc::new(RwLock::new(Standing::default()));
        registry.register_collector(Box::new(Gauges(standing.clone())));
        let api = api::Metrics::new(&mut registry);
        Self {
            registry: Arc::new(registry),
            charges,
            gpu_seconds,
            settled,
            late,
            vanished,
            failures,
            interruptions,
            enforced,
            standing,
            api,
        }
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    pub(super) fn enforced(&self, outcome: &'static str) {
        self.enforced.get_or_create(&Enforced { outcome }).inc();
    }

    /// What was written for one pod.
    pub(super) fn charged(&self, charged: &Charged, now: Seconds) {
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

    /// Another replica says it from now on.
    pub(super) fn stands_no_more(&self) {
        *self.standing.write() = Standing::default();
    }

    pub(super) fn ledger_failed(&self) {
        self.failed("ledger");
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
        self.interruptions
            .get_or_create(&Resource { resource })
            .inc();
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

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let standing = self.0.read();
        let gauge = MetricType::Gauge;
        let help = "Pods that hold cards and are charged for it";
        let mut metric = encoder.encode_descriptor("metered_pods", help, None, gauge)?;
        metric.encode_gauge(&standing.pods)?;
        let numbers: [(&str, &str, Number); 5] = [
            (
                "budget_remaining_gpu_seconds",
                "What is left of a budget in its period",
                |figures| gpu_seconds(figures.standing.remaining),
            ),
            (
                "budget_used_gpu_seconds",
                "What was charged to a budget in its period",
                |figures| gpu_seconds(figures.sums.used),
            ),
            (
                "budget_held_gpu_seconds",
                "What running pods have accrued and were not charged yet",
                |figures| gpu_seconds(figures.sums.held),
            ),
            (
                "budget_burn_rate",
                "GPU-seconds that a budget pays for each second now",
                |figures| gpu_seconds(Amount::from_micros(figures.sums.rate.micros())),
            ),
            (
                "budget_exhausted",
                "1 if nothing remains of a budget or of one that it is a part of",
                |figures| f64::from(u8::from(figures.standing.exhausted)),
            ),
        ];
        for (name, help, number) in numbers {
            let mut metric = encoder.encode_descriptor(name, help, None, gauge)?;
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
