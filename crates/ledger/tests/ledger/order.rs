//! Whatever happens in whatever order (crashes, repeated and late reports, clocks that step, writers that replace each
//! other), in the end everybody has paid for exactly what was held, and the books balance.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpushare_core::PodUid;
use gpushare_ledger::Seconds;
use gpushare_ledger::meter::{self, Booking, Tier};
use gpushare_ledger::money::{Amount, Rate};
use gpushare_ledger::period::{Calendar, Schedule, Span};
use gpushare_ledger::store::{Batch, Change, Epoch, Ledger, Settlement, StoreError};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use tokio::runtime::Runtime;

use crate::database::{Database, Kind};

/// Divides neither days nor hours: cuts must come from the periods too.
const GRID: Seconds = 1_700;
/// 2026-03-27, two days before the clocks of Berlin change.
const START: Seconds = 1_774_569_600;
const DAYS: Seconds = 4;

#[derive(Clone, Debug)]
struct Pod {
    begin: Seconds,
    end: Seconds,
    rate: i64,
    /// How long after the end it becomes known.
    late: Seconds,
}

#[derive(Clone, Debug)]
enum Event {
    Pass(Seconds),
    /// From now on the timekeeper's clock is off by this much.
    Step(Seconds),
    Report,
    /// The report reaches the ledger, but its sender dies before the answer.
    ReportAndCrash,
    /// An old report arrives once more.
    Repeat(usize),
    /// Another writer takes over, and then the old one reports.
    Failover,
}

fn pods() -> impl Strategy<Value = Vec<Pod>> {
    let pod = (
        0..DAYS * 86_400,
        0..2 * 86_400_i64,
        0..3_000_000_i64,
        0..20_000_i64,
    );
    let pod = pod.prop_map(|(begin, length, rate, late)| Pod {
        begin: START + begin,
        end: START + begin + length,
        rate,
        late,
    });
    prop::collection::vec(pod, 1..5)
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (1..60_000_i64).prop_map(Event::Pass),
        1 => (-40_000..40_000_i64).prop_map(Event::Step),
        4 => Just(Event::Report),
        1 => Just(Event::ReportAndCrash),
        1 => (0..20_usize).prop_map(Event::Repeat),
        1 => Just(Event::Failover),
    ];
    prop::collection::vec(event, 1..25)
}

/// From the budget that pays to the root, with periods that begin at different times.
fn chain() -> [Tier; 2] {
    let tier = |budget: &str, schedule| Tier {
        budget: budget.to_owned(),
        schedule,
    };
    [
        tier(
            "leaf",
            Schedule::calendar(Calendar::Day, "Europe/Berlin").unwrap(),
        ),
        tier("root", Schedule::rolling("2d").unwrap()),
    ]
}

struct World {
    database: Database,
    ledger: Ledger,
    epoch: Epoch,
    pods: Vec<Pod>,
    now: Seconds,
    skew: Seconds,
    sent: Vec<Vec<Change>>,
}

impl World {
    async fn new(kind: Kind, pods: Vec<Pod>) -> Self {
        let database = Database::new(kind).await;
        let ledger = database.open().await;
        let epoch = ledger.take_over("first").await.unwrap();
        Self {
            database,
            ledger,
            epoch,
            pods,
            now: START,
            skew: 0,
            sent: Vec::new(),
        }
    }

    async fn reopen(&mut self) {
        self.ledger = self.database.open().await;
        self.epoch = self.ledger.take_over("next").await.unwrap();
    }

    /// The changes to write, by what is known now.
    async fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        let pods = self.pods.iter().enumerate();
        for (number, pod) in pods.filter(|(_, pod)| pod.begin <= self.now) {
            let booking = Booking {
                pod: PodUid::new(number.to_string()),
                namespace: format!("n{}", number % 2),
                name: format!("p{number}"),
                begin: pod.begin,
                end: (pod.end + pod.late <= self.now).then_some(pod.end),
                rate: Rate::from_micros(pod.rate),
                formula: "max/1".to_owned(),
                cards: Arc::default(),
            };
            let metered = self.ledger.pod(&booking.pod).await.unwrap();
            if metered.as_ref().is_some_and(|metered| metered.settled) {
                continue;
            }
            let through = metered.map(|metered| metered.through);
            let now = self.now + self.skew;
            let plan = meter::plan(&booking, &chain(), through, now, GRID).unwrap();
            changes.extend(plan.charges.into_iter().map(Change::Charge));
            changes.extend(plan.settle.map(|end| {
                Change::Settle(Settlement {
                    pod: booking.pod.clone(),
                    namespace: booking.namespace.clone(),
                    name: booking.name.clone(),
                    end,
                })
            }));
        }
        changes
    }

    async fn record(&self, epoch: Epoch, changes: Vec<Change>) -> Result<(), StoreError> {
        let batch = Batch::new(epoch, self.now, changes);
        self.ledger.record(batch).await.map(drop)
    }

    async fn report(&mut self) {
        let changes = self.changes().await;
        self.record(self.epoch, changes.clone()).await.unwrap();
        self.sent.push(changes);
    }

    async fn happen(&mut self, event: Event) {
        match event {
            Event::Pass(seconds) => self.now += seconds,
            Event::Step(seconds) => self.skew = seconds,
            Event::Report => self.report().await,
            Event::ReportAndCrash => {
                self.report().await;
                self.reopen().await;
            }
            Event::Repeat(number) => {
                if let Some(old) = self.sent.get(number) {
                    // Nothing new, or stale: a pod has been settled since.
                    if let Err(refused) = self.record(self.epoch, old.clone()).await {
                        use StoreError::{Apart, Settled};
                        let stale = matches!(refused, Apart { .. } | Settled { .. });
                        assert!(stale, "{refused}");
                    }
                }
            }
            Event::Failover => {
                let old = self.epoch;
                let changes = self.changes().await;
                self.reopen().await;
                let refused = self.record(old, changes).await;
                assert!(
                    matches!(refused, Err(StoreError::Fenced { .. })),
                    "{refused:?}"
                );
            }
        }
    }

    /// Every end is known, and the clock is right.
    async fn end(&mut self) {
        self.skew = 0;
        self.now = START + 20 * 86_400;
        self.report().await;
    }
}

async fn everybody_pays_for_what_was_held(
    kind: Kind,
    pods: Vec<Pod>,
    events: Vec<Event>,
) -> Result<(), TestCaseError> {
    let mut world = World::new(kind, pods).await;
    for event in events {
        world.happen(event).await;
        prop_assert_eq!(world.ledger.audit().await.unwrap(), Vec::<String>::new());
    }
    world.end().await;
    prop_assert_eq!(world.ledger.audit().await.unwrap(), Vec::<String>::new());
    prop_assert_eq!(world.ledger.unsettled().await.unwrap(), vec![]);

    let mut namespaces: BTreeMap<String, i64> = BTreeMap::new();
    for (number, pod) in world.pods.iter().enumerate() {
        *namespaces.entry(format!("n{}", number % 2)).or_default() +=
            pod.rate * (pod.end - pod.begin);
    }
    let always = Span::new(START, START + 30 * 86_400);
    for (namespace, held) in namespaces {
        let lines = world.ledger.statement(&namespace, always).await.unwrap();
        let charged = Amount::sum(lines.iter().map(|line| line.amount)).unwrap();
        prop_assert_eq!(charged.micros(), held, "{}", namespace);
    }
    for tier in chain() {
        let mut at = START;
        while at < START + 8 * 86_400 {
            let slot = tier.schedule.slot(at).unwrap();
            // There are few days; of the many slots of the rolling window some are enough.
            let next = if tier.budget == "leaf" {
                slot.end
            } else {
                slot.end + 11 * 3_600
            };
            let held = world.pods.iter().map(|pod| {
                let (start, end) = (pod.begin, pod.end);
                pod.rate * slot.overlap(&Span { start, end })
            });
            let held: i64 = held.sum();
            let used = world.ledger.balance(&tier.budget, slot).await.unwrap().used;
            prop_assert_eq!(used.micros(), held, "{} from {}", tier.budget, slot.start);
            at = next;
        }
    }
    Ok(())
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn run(kind: Kind, pods: Vec<Pod>, events: Vec<Event>) -> Result<(), TestCaseError> {
    runtime().block_on(everybody_pays_for_what_was_held(kind, pods, events))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everybody_pays_for_exactly_what_was_held_in_sqlite(pods in pods(), events in events()) {
        run(Kind::Sqlite, pods, events)?;
    }
}

/// One server for all cases; otherwise each case would start its own.
#[test]
fn everybody_pays_for_exactly_what_was_held_in_postgresql() {
    let config = ProptestConfig {
        cases: 12,
        max_shrink_iters: 50,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let _server = runtime().block_on(Database::new(Kind::Postgres));
    let mut runner = TestRunner::new(config);
    let ran = runner.run(&(pods(), events()), |(pods, events)| {
        run(Kind::Postgres, pods, events)
    });
    ran.unwrap();
}
