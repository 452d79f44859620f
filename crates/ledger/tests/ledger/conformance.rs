//! What the ledger promises, on both databases.

use std::sync::Arc;

use gpushare_core::{CardId, PodUid};
use gpushare_ledger::Seconds;
use gpushare_ledger::journal::Leg;
use gpushare_ledger::meter::{Charge, HeldCard};
use gpushare_ledger::money::{Amount, Rate};
use gpushare_ledger::opening;
use gpushare_ledger::period::{Calendar, Schedule, Span};
use gpushare_ledger::policy::{Exhaustion, Policy};
use gpushare_ledger::price::{Formula, Holding, Part, Prices};
use gpushare_ledger::store::{
    Balance, Batch, Change, Epoch, Grant, Ledger, Line, Of, Outcome, Posting, Settlement,
    StoreError,
};

use crate::database::{Database, Kind};

/// Runs each test on a new database of each kind.
macro_rules! on_both_databases {
    ($($test:ident),* $(,)?) => {
        mod sqlite {
            use crate::database::{Database, Kind};
            $(#[tokio::test]
            async fn $test() {
                super::$test(Database::new(Kind::Sqlite).await).await;
            })*
        }
        mod postgres {
            use crate::database::{Database, Kind};
            $(#[tokio::test]
            async fn $test() {
                super::$test(Database::new(Kind::Postgres).await).await;
            })*
        }
    };
}
pub(crate) use on_both_databases;

on_both_databases!(
    cards_are_remembered_until_they_are_forgotten,
    a_charge_is_written_once_however_often_it_is_sent,
    a_charge_that_does_not_join_is_refused_with_its_whole_batch,
    a_charge_is_paid_by_its_budget_and_counted_by_every_ancestor,
    what_was_charged_past_the_end_is_reversed,
    after_the_end_nothing_is_charged,
    a_pod_that_never_held_anything_can_be_settled,
    a_writer_that_was_replaced_can_change_nothing,
    an_amount_is_issued_once_and_follows_its_budget,
    a_grant_is_given_once_and_has_an_author_and_a_reason,
    what_is_left_is_carried_over_once_up_to_the_cap,
    periods_open_alike_after_an_outage_and_step_by_step,
    a_statement_is_exact_to_the_second_for_any_time,
    a_budgets_statement_has_what_its_descendants_used,
    what_fills_a_budget_is_told_apart,
    every_posting_is_exported_once_page_by_page,
    namespaces_without_a_budget_are_metered_too,
    everything_is_there_after_opening_again,
    a_database_of_a_newer_version_is_left_alone,
    what_is_too_old_goes_and_the_balances_stay,
    requests_at_the_same_time_are_all_answered,
    writers_that_replace_each_other_all_the_time_charge_everything_once,
);

const ALWAYS: Span = Span::new(Seconds::MIN, Seconds::MAX);

pub(crate) fn charge(pod: &str, from: Seconds, to: Seconds, legs: &[&str]) -> Change {
    let legs = legs.iter().map(|budget| Leg::new(budget, 0));
    Change::Charge(Charge {
        pod: PodUid::new(pod),
        namespace: "a".to_owned(),
        name: format!("{pod}-name"),
        from,
        to,
        rate: Rate::from_micros(500_000),
        formula: "max/1".to_owned(),
        cards: Arc::new([quarter(pod)]),
        legs: legs.collect(),
    })
}

/// A quarter of the memory of a card that only this pod uses.
fn quarter(pod: &str) -> HeldCard {
    HeldCard {
        id: CardId::new(format!("GPU-{pod}")),
        holding: Holding {
            model: "Tesla \"T4\"".into(),
            memory: Part {
                held: 4_096,
                of: 16_384,
            },
            core: Part { held: 0, of: 100 },
        },
    }
}

pub(crate) fn settle(pod: &str, end: Seconds) -> Change {
    Change::Settle(Settlement {
        pod: PodUid::new(pod),
        namespace: "a".to_owned(),
        name: format!("{pod}-name"),
        end,
    })
}

fn issue(budget: &str, slot: Seconds, seconds: i64) -> Change {
    let leg = Leg::new(budget, slot);
    Change::Issue {
        leg,
        amount: amount(seconds),
    }
}

/// Carries over from the first slot of `leaf` to this one.
fn carry(new: Seconds, cap: i64) -> Change {
    Change::Rollover {
        budget: "leaf".to_owned(),
        old: 0,
        new,
        cap: amount(cap),
    }
}

fn grant(id: &str, reason: &str) -> Grant {
    Grant {
        id: id.to_owned(),
        leg: Leg::new("leaf", 0),
        amount: amount(60),
        author: "ada".to_owned(),
        reason: reason.to_owned(),
    }
}

fn amount(seconds: i64) -> Amount {
    Amount::from_seconds(seconds).unwrap()
}

/// A ledger with its writer.
struct Writing {
    ledger: Ledger,
    epoch: Epoch,
}

impl Writing {
    async fn open(database: &Database) -> Self {
        let ledger = database.open().await;
        let epoch = ledger.take_over("test").await.unwrap();
        Self { ledger, epoch }
    }

    async fn record(&self, changes: Vec<Change>) -> Result<Vec<Outcome>, StoreError> {
        let batch = Batch::new(self.epoch, 1_000, changes);
        self.ledger.record(batch).await
    }

    async fn applied(&self, changes: Vec<Change>) {
        let applied = vec![Outcome::Applied; changes.len()];
        assert_eq!(self.record(changes).await.unwrap(), applied);
    }

    /// Sends changes again that the ledger has.
    async fn repeated(&self, changes: Vec<Change>) {
        let known = vec![Outcome::AlreadyThere; changes.len()];
        assert_eq!(self.record(changes).await.unwrap(), known);
    }

    async fn refused(&self, changes: Vec<Change>) -> StoreError {
        self.record(changes).await.unwrap_err()
    }

    async fn balance(&self, budget: &str) -> (i64, i64) {
        let Balance { supplied, used } = self.ledger.balance(budget, ALWAYS).await.unwrap();
        (supplied.whole_seconds(), used.whole_seconds())
    }

    async fn through(&self, pod: &str) -> Option<Seconds> {
        let metered = self.ledger.pod(&PodUid::new(pod)).await.unwrap();
        metered.map(|metered| metered.through)
    }

    async fn consistent(&self) {
        assert_eq!(self.ledger.audit().await.unwrap(), [""; 0]);
    }
}

async fn a_charge_is_written_once_however_often_it_is_sent(database: Database) {
    let writing = Writing::open(&database).await;
    let changes = vec![
        charge("p", 0, 100, &["leaf"]),
        charge("p", 100, 160, &["leaf"]),
    ];
    writing.applied(changes.clone()).await;
    writing.repeated(changes).await;
    assert_eq!(writing.balance("leaf").await, (0, 80));
    assert_eq!(writing.through("p").await, Some(160));
    writing.consistent().await;
}

async fn a_charge_that_does_not_join_is_refused_with_its_whole_batch(database: Database) {
    let writing = Writing::open(&database).await;
    writing.applied(vec![charge("p", 0, 100, &["leaf"])]).await;
    for (from, to) in [(101, 200), (50, 150), (-10, 150)] {
        let batch = vec![
            charge("q", 0, 10, &["leaf"]),
            charge("p", from, to, &["leaf"]),
        ];
        let refused = writing.refused(batch).await;
        assert!(
            matches!(refused, StoreError::Apart { through: 100, .. }),
            "{refused}"
        );
    }
    let empty = writing.refused(vec![charge("p", 100, 100, &[])]).await;
    assert!(matches!(empty, StoreError::Refused(_)), "{empty}");
    assert_eq!(writing.through("q").await, None);
    assert_eq!(writing.balance("leaf").await, (0, 50));
    writing.consistent().await;
}

async fn a_charge_is_paid_by_its_budget_and_counted_by_every_ancestor(database: Database) {
    let writing = Writing::open(&database).await;
    writing
        .applied(vec![
            charge("p", 0, 100, &["leaf", "group", "root"]),
            charge("q", 0, 20, &["other", "root"]),
        ])
        .await;
    for (budget, used) in [("leaf", 50), ("group", 50), ("root", 60), ("other", 10)] {
        assert_eq!(writing.balance(budget).await, (0, used), "{budget}");
    }
    writing.consistent().await;
}

async fn what_was_charged_past_the_end_is_reversed(database: Database) {
    let writing = Writing::open(&database).await;
    writing
        .applied(vec![
            charge("p", 0, 100, &["leaf", "root"]),
            charge("p", 100, 200, &["leaf", "root"]),
            charge("p", 200, 300, &["leaf", "root"]),
        ])
        .await;
    writing.applied(vec![settle("p", 150)]).await;
    assert_eq!(writing.balance("leaf").await, (0, 75));
    assert_eq!(writing.balance("root").await, (0, 75));
    writing.consistent().await;
    // A still earlier end reverses more; the same end again changes nothing.
    writing.applied(vec![settle("p", 40)]).await;
    writing.repeated(vec![settle("p", 40)]).await;
    assert_eq!(writing.balance("leaf").await, (0, 20));
    writing.applied(vec![settle("p", 0)]).await;
    assert_eq!(writing.balance("root").await, (0, 0));
    writing.consistent().await;
}

async fn after_the_end_nothing_is_charged(database: Database) {
    let writing = Writing::open(&database).await;
    writing
        .applied(vec![charge("p", 0, 100, &["leaf"]), settle("p", 100)])
        .await;
    for change in [charge("p", 100, 200, &["leaf"]), settle("p", 200)] {
        let refused = writing.refused(vec![change]).await;
        assert!(
            matches!(refused, StoreError::Settled { end: 100, .. }),
            "{refused}"
        );
    }
    writing.repeated(vec![charge("p", 0, 100, &["leaf"])]).await;
    assert_eq!(writing.balance("leaf").await, (0, 50));
    assert_eq!(writing.ledger.unsettled().await.unwrap(), []);
    let gap = vec![charge("q", 0, 10, &[]), settle("q", 11)];
    let gap = writing.refused(gap).await;
    let StoreError::Apart { through, from, .. } = gap else {
        unreachable!("{gap}")
    };
    assert_eq!((through, from), (10, 11));
    writing.consistent().await;
}

async fn a_pod_that_never_held_anything_can_be_settled(database: Database) {
    let writing = Writing::open(&database).await;
    writing.applied(vec![settle("p", 50)]).await;
    let metered = writing.ledger.pod(&PodUid::new("p")).await.unwrap();
    let metered = metered.unwrap();
    assert!(metered.settled);
    assert_eq!((metered.begin, metered.through), (50, 50));
    writing.consistent().await;
}

async fn a_writer_that_was_replaced_can_change_nothing(database: Database) {
    let old = Writing::open(&database).await;
    old.applied(vec![charge("p", 0, 100, &["leaf"])]).await;
    let new = Writing::open(&database).await;
    assert!(new.epoch > old.epoch);
    let refused = old.refused(vec![charge("p", 100, 200, &["leaf"])]).await;
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused}");
    let refused = old.ledger.retain(old.epoch, 500, 1_000).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused}");
    new.applied(vec![charge("p", 100, 110, &["leaf"])]).await;
    assert_eq!(old.balance("leaf").await, (0, 55));
    // A term that the database has not seen gives no right to write either.
    let restored = Writing {
        ledger: database.another().await.open().await,
        epoch: new.epoch,
    };
    let refused = restored.refused(vec![settle("p", 0)]).await;
    assert!(
        matches!(refused, StoreError::Fenced { current: 0, .. }),
        "{refused}"
    );
}

async fn an_amount_is_issued_once_and_follows_its_budget(database: Database) {
    let writing = Writing::open(&database).await;
    writing
        .applied(vec![issue("leaf", 0, 100), issue("leaf", 500, 7)])
        .await;
    writing.repeated(vec![issue("leaf", 0, 100)]).await;
    assert_eq!(writing.balance("leaf").await, (107, 0));
    for seconds in [150, 30, 150, 30] {
        writing.applied(vec![issue("leaf", 0, seconds)]).await;
        let slot = Span { start: 0, end: 500 };
        let balance = writing.ledger.balance("leaf", slot).await.unwrap();
        assert_eq!(balance.supplied, amount(seconds));
    }
    writing.consistent().await;
}

async fn a_grant_is_given_once_and_has_an_author_and_a_reason(database: Database) {
    let writing = Writing::open(&database).await;
    let given = grant("request-1", "conference deadline");
    writing
        .applied(vec![issue("leaf", 0, 100), Change::Grant(given.clone())])
        .await;
    writing.repeated(vec![Change::Grant(given.clone())]).await;
    assert_eq!(writing.balance("leaf").await, (160, 0));
    for wrong in [
        grant("request-2", " "),
        Grant {
            author: String::new(),
            ..grant("request-2", "x")
        },
        Grant {
            amount: amount(-5),
            ..grant("request-2", "x")
        },
        grant("", "x"),
    ] {
        let refused = writing.refused(vec![Change::Grant(wrong)]).await;
        assert!(matches!(refused, StoreError::Refused(_)), "{refused}");
    }
    let granted = writing.ledger.grants("leaf").await.unwrap();
    assert_eq!(granted, [(1_000, given)]);
    assert_eq!(writing.ledger.grants("other").await.unwrap(), []);
    writing.consistent().await;
}

async fn what_is_left_is_carried_over_once_up_to_the_cap(database: Database) {
    let writing = Writing::open(&database).await;
    writing
        .applied(vec![
            issue("leaf", 0, 100),
            charge("p", 0, 100, &["leaf"]),
            carry(500, 30),
        ])
        .await;
    writing.repeated(vec![carry(500, 99)]).await;
    let later = Span::new(500, 1_000);
    let balance = writing.ledger.balance("leaf", later).await.unwrap();
    assert_eq!(balance.supplied, amount(30));
    // An exhausted slot leaves nothing to carry over, and that is recorded too.
    writing
        .applied(vec![charge("p", 100, 1_000, &["leaf"]), carry(900, 30)])
        .await;
    assert_eq!(writing.balance("leaf").await, (100, 500));
    let refused = writing.refused(vec![carry(0, 1)]).await;
    assert!(matches!(refused, StoreError::Refused(_)), "{refused}");
    writing.consistent().await;
}

async fn periods_open_alike_after_an_outage_and_step_by_step(database: Database) {
    const DAY: Seconds = 86_400;
    let writing = Writing::open(&database).await;
    let policy = Policy {
        amount: amount(100),
        schedule: Schedule::calendar(Calendar::Day, "UTC").unwrap(),
        rollover_cap: amount(150),
        prices: Prices::default(),
        formula: Formula::Max,
        when_exhausted: Exhaustion::Demote,
    };
    let open = async |budget: &str, now: Seconds| {
        let opened = writing.ledger.opened(budget).await.unwrap();
        let steps = opening::open(budget, &policy, opened, now).unwrap();
        writing.record(steps).await.unwrap()
    };
    open("outage", 0).await;
    open("outage", 4 * DAY).await;
    for hour in 0..=4 * 24 {
        open("steady", hour * 3_600).await;
    }
    for budget in ["outage", "steady"] {
        let today = policy.schedule.slot(4 * DAY).unwrap();
        let balance = writing.ledger.balance(budget, today).await.unwrap();
        assert_eq!(balance.supplied, amount(250), "{budget}");
        let again = open(budget, 4 * DAY).await;
        assert_eq!(again, [Outcome::AlreadyThere], "{budget}");
    }
    writing.consistent().await;
}

async fn a_statement_is_exact_to_the_second_for_any_time(database: Database) {
    let writing = Writing::open(&database).await;
    writing
        .applied(vec![
            charge("p", 0, 100, &["leaf"]),
            charge("p", 100, 200, &["leaf"]),
            charge("q", 50, 80, &[]),
            settle("p", 170),
        ])
        .await;
    let lines = async |start, end| {
        let span = Span { start, end };
        let lines = writing.ledger.statement("a", span).await.unwrap();
        let line = |line: Line| (line.name, line.seconds, line.amount.micros());
        lines.into_iter().map(line).collect::<Vec<_>>()
    };
    let p = |seconds: i64| ("p-name".to_owned(), seconds, seconds * 500_000);
    let q = |seconds: i64| ("q-name".to_owned(), seconds, seconds * 500_000);
    assert_eq!(lines(0, 1_000).await, [p(170), q(30)]);
    assert_eq!(lines(70, 120).await, [p(50), q(10)]);
    assert_eq!(lines(80, 81).await, [p(1)]);
    assert_eq!(lines(170, 1_000).await, []);
    let stated = writing.ledger.statement("a", ALWAYS).await.unwrap();
    let cards: Vec<_> = stated.iter().map(|line| line.cards.as_slice()).collect();
    assert_eq!(cards, [[quarter("p")], [quarter("q")]]);
    assert_eq!(writing.ledger.statement("b", ALWAYS).await.unwrap(), []);
}

async fn a_budgets_statement_has_what_its_descendants_used(database: Database) {
    let writing = Writing::open(&database).await;
    writing
        .applied(vec![
            charge("p", 0, 100, &["leaf", "root"]),
            charge("q", 50, 80, &["root"]),
            charge("r", 0, 10, &["other"]),
            settle("p", 60),
        ])
        .await;
    for (budget, expected) in [
        ("leaf", vec![("p-name", 0, 60, 30)]),
        ("root", vec![("p-name", 0, 60, 30), ("q-name", 50, 80, 15)]),
        ("none", vec![]),
    ] {
        let of = Of::Budget(budget.to_owned());
        let lines = writing.ledger.lines(of, ALWAYS).await.unwrap();
        let read = lines.iter().map(|line| {
            let Span { start, end } = line.span;
            assert_eq!(line.namespace, "a");
            (line.name.as_str(), start, end, line.amount.whole_seconds())
        });
        assert_eq!(read.collect::<Vec<_>>(), expected, "{budget}");
    }
}

async fn what_fills_a_budget_is_told_apart(database: Database) {
    let writing = Writing::open(&database).await;
    let mut granted = grant("g", "deadline");
    granted.leg.slot = 100;
    writing
        .applied(vec![
            issue("leaf", 0, 90),
            charge("p", 0, 100, &["leaf"]),
            issue("leaf", 100, 90),
            carry(100, 30),
            Change::Grant(granted),
        ])
        .await;
    let parts = async |start, end| {
        let span = Span { start, end };
        let supply = writing.ledger.supply("leaf", span).await.unwrap();
        let parts = [supply.issued, supply.carried, supply.granted, supply.used];
        parts.map(Amount::whole_seconds)
    };
    assert_eq!(parts(0, 100).await, [90, -30, 0, 50]);
    assert_eq!(parts(100, 200).await, [90, 30, 60, 0]);
    assert_eq!(parts(0, 200).await, [180, 0, 60, 50]);
}

async fn every_posting_is_exported_once_page_by_page(database: Database) {
    let writing = Writing::open(&database).await;
    writing
        .applied(vec![
            issue("leaf", 0, 90),
            Change::Grant(grant("g", "deadline")),
            charge("p", 0, 100, &["leaf", "root"]),
            settle("p", 60),
        ])
        .await;
    let page = async |after, most| {
        let page = writing.ledger.postings(ALWAYS, after, most).await;
        page.unwrap()
    };
    let all = page(0, 100).await;
    let kinds: Vec<&str> = all.iter().map(|posting| posting.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "issue", "grant", "charge", "charge", "reversal", "reversal", "charge", "charge"
        ]
    );
    assert_eq!(all[1].author.as_deref(), Some("ada"));
    assert_eq!([&all[2].from.kind, &all[2].to.kind], ["budget", "usage"]);
    let held = all[4].held.as_ref().unwrap();
    assert_eq!((held.name.as_str(), held.span.end), ("p-name", 100));
    assert_eq!(all[6].amount, amount(30));
    let mut paged = Vec::new();
    loop {
        let after = paged.last().map_or(0, |last: &Posting| last.id);
        let next = page(after, 3).await;
        if next.is_empty() {
            break;
        }
        paged.extend(next);
    }
    assert_eq!(paged, all);
    let later = Span::new(1_001, Seconds::MAX);
    assert_eq!(writing.ledger.postings(later, 0, 100).await.unwrap(), []);
}

async fn namespaces_without_a_budget_are_metered_too(database: Database) {
    let writing = Writing::open(&database).await;
    writing.applied(vec![charge("p", 0, 100, &[])]).await;
    let lines = writing.ledger.statement("a", ALWAYS).await.unwrap();
    assert_eq!(lines[0].amount, amount(50));
    writing.consistent().await;
}

async fn everything_is_there_after_opening_again(database: Database) {
    {
        let writing = Writing::open(&database).await;
        writing
            .applied(vec![issue("leaf", 0, 100), charge("p", 0, 100, &["leaf"])])
            .await;
    }
    let writing = Writing::open(&database).await;
    assert_eq!(writing.balance("leaf").await, (100, 50));
    assert_eq!(writing.through("p").await, Some(100));
    let open = writing.ledger.unsettled().await.unwrap();
    let open: Vec<&str> = open.iter().map(|metered| metered.name.as_str()).collect();
    assert_eq!(open, ["p-name"]);
}

async fn a_database_of_a_newer_version_is_left_alone(database: Database) {
    drop(database.open().await);
    let newer = match database {
        Database::Sqlite(_) => "PRAGMA user_version = 99",
        Database::Postgres { .. } => "INSERT INTO ledger_schema VALUES (99)",
    };
    database.tamper(newer).await.unwrap();
    let refused = database.try_open().await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Newer { found: 99, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("or a later one"), "{refused}");
}

async fn what_is_too_old_goes_and_the_balances_stay(database: Database) {
    let writing = Writing::open(&database).await;
    writing
        .applied(vec![
            issue("leaf", 0, 1_000),
            charge("old", 0, 100, &["leaf", "root"]),
            charge("old", 100, 200, &["leaf", "root"]),
            settle("old", 150),
            charge("young", 0, 900, &["leaf", "root"]),
            settle("young", 900),
            charge("running", 0, 100, &["leaf"]),
        ])
        .await;
    let before = (writing.balance("leaf").await, writing.balance("root").await);
    assert_eq!(writing.ledger.retained().await.unwrap(), None);
    // Two charges, one that was cut, and a reversal.
    for removed in [4, 0] {
        let retained = writing.ledger.retain(writing.epoch, 900, 5_000).await;
        assert_eq!(retained.unwrap(), removed);
    }
    let after = (writing.balance("leaf").await, writing.balance("root").await);
    assert_eq!(after, before);
    assert_eq!(writing.ledger.retained().await.unwrap(), Some(900));
    let lines = writing.ledger.statement("a", ALWAYS).await.unwrap();
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["young-name", "running-name"]);
    // What was deleted is not charged again.
    writing
        .repeated(vec![charge("old", 0, 100, &["leaf"])])
        .await;
    writing.consistent().await;
}

async fn requests_at_the_same_time_are_all_answered(database: Database) {
    let writing = Writing::open(&database).await;
    let accepted = async |from, to| {
        let requests = (0..64).map(|number| {
            // Every fourth charge is refused, which does not affect the others.
            let from = if number % 4 == 0 { 5 } else { from };
            let pod = format!("p{number}");
            let first = charge(&pod, 0, 1, &["leaf"]);
            writing.record(vec![first, charge(&pod, from, to, &["leaf"])])
        });
        let answers = futures::future::join_all(requests).await;
        answers.iter().filter(|answer| answer.is_ok()).count()
    };
    // None of these joins the first one.
    assert_eq!(accepted(0, 10).await, 0);
    assert_eq!(accepted(1, 11).await, 48);
    assert_eq!(writing.balance("leaf").await, (0, 48 * 11 / 2));
    writing.consistent().await;
}

async fn writers_that_replace_each_other_all_the_time_charge_everything_once(database: Database) {
    const ROUNDS: i64 = 15;
    let rivals = futures::future::join_all((0..3).map(|_| database.open())).await;
    let together = tokio::sync::Barrier::new(rivals.len());
    let fight = |ledger: Ledger| {
        let together = &together;
        async move {
            let mut written = 0;
            for round in 0..ROUNDS {
                let epoch = ledger.take_over("rival").await.unwrap();
                together.wait().await;
                let batch = Batch::new(
                    epoch,
                    0,
                    vec![charge("p", round * 10, round * 10 + 10, &["leaf", "root"])],
                );
                match ledger.record(batch).await {
                    Ok(outcomes) => {
                        assert_eq!(outcomes, [Outcome::Applied]);
                        written += 1;
                    }
                    Err(refused) => {
                        assert!(matches!(refused, StoreError::Fenced { .. }), "{refused:?}");
                    }
                }
                together.wait().await;
            }
            written
        }
    };
    let written = futures::future::join_all(rivals.into_iter().map(fight)).await;
    assert_eq!(written.into_iter().sum::<i64>(), ROUNDS);
    let writing = Writing::open(&database).await;
    assert_eq!(writing.through("p").await, Some(ROUNDS * 10));
    assert_eq!(writing.balance("leaf").await, (0, ROUNDS * 5));
    assert_eq!(writing.balance("root").await, (0, ROUNDS * 5));
    writing.consistent().await;
}

async fn cards_are_remembered_until_they_are_forgotten(database: Database) {
    let writing = Writing::open(&database).await;
    let remember = |node: &str, cards: Option<&str>| Change::Remember {
        node: node.to_owned(),
        cards: cards.map(str::to_owned),
    };
    let first = vec![remember("m", Some("one")), remember("n", Some("two"))];
    writing.applied(first).await;
    let then = vec![remember("n", Some("three")), remember("m", None)];
    writing.applied(then).await;
    let known = database.open().await.inventories().await.unwrap();
    assert_eq!(known, [("n".to_owned(), "three".to_owned())]);
    writing.repeated(vec![remember("m", None)]).await;
}

#[tokio::test]
async fn a_broken_connection_to_postgresql_is_made_again() {
    let database = Database::new(Kind::Postgres).await;
    let writing = Writing::open(&database).await;
    for second in 0..5 {
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        database.tamper(cut).await.unwrap();
        writing
            .applied(vec![charge("p", second, second + 1, &["leaf"])])
            .await;
        assert_eq!(writing.through("p").await, Some(second + 1));
    }
    writing.consistent().await;
}
