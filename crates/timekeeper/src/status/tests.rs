use gpushare_ledger::forecast::standing;
use gpushare_ledger::money::Rate;
use serde_json::json;

use super::*;

fn budget() -> GpuBudget {
    let budget = json!({
        "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget",
        "metadata": {"name": "b", "generation": 3}, "spec": {"amount": "1h"},
    });
    serde_json::from_value(budget).unwrap()
}

fn figures(used: i64, held: i64, rate: i64) -> Figures {
    let amount = |seconds| Amount::from_seconds(seconds).unwrap();
    let sums = Sums {
        supplied: amount(3_600),
        used: amount(used),
        held: amount(held),
        rate: Rate::from_micros(rate),
    };
    let own = standing(&sums, 10_000, Some(86_400)).unwrap();
    Figures {
        sums,
        own,
        standing: own,
        exhausted_ancestor: None,
        start: 0,
        end: Some(86_400),
    }
}

fn at(now: Seconds, before: Option<&GpuBudgetStatus>, figures: &Figures) -> GpuBudgetStatus {
    status(&budget(), before, Some(figures), None, now)
}

fn since(status: &GpuBudgetStatus, kind: &str) -> (String, Seconds) {
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == kind);
    let condition = condition.unwrap();
    let since = condition.last_transition_time.0.as_second();
    (condition.status.clone(), since)
}

#[test]
fn a_status_has_numbers_for_programs_and_texts_for_people() {
    let status = at(10_000, None, &figures(1_800, 60, 1_000_000));
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.used.as_deref(), Some("30m"));
    assert_eq!(status.held_seconds, Some(60));
    assert_eq!(status.remaining_seconds, Some(1_740));
    assert_eq!(status.exhausts_at, Some(time(11_740)));
    assert_eq!(status.period_end, Some(time(86_400)));
    assert!(!status.exhausted);
    assert_eq!(since(&status, "Ready"), ("True".to_owned(), 10_000));
}

#[test]
fn exhaustion_keeps_the_moment_at_which_it_began() {
    let rich = at(10_000, None, &figures(0, 0, 0));
    assert_eq!(since(&rich, "Exhausted"), ("False".to_owned(), 10_000));
    let poor = at(20_000, Some(&rich), &figures(3_600, 0, 0));
    assert!(poor.exhausted);
    assert_eq!(since(&poor, "Exhausted"), ("True".to_owned(), 20_000));
    let still = at(30_000, Some(&poor), &figures(3_700, 0, 0));
    assert_eq!(since(&still, "Exhausted"), ("True".to_owned(), 20_000));
    let again = at(40_000, Some(&still), &figures(0, 0, 0));
    assert_eq!(since(&again, "Exhausted"), ("False".to_owned(), 40_000));
    assert_eq!(since(&again, "Ready"), ("True".to_owned(), 10_000));
}

#[test]
fn an_exhausted_ancestor_is_named() {
    let mut figures = figures(0, 0, 0);
    figures.standing.exhausted = true;
    figures.exhausted_ancestor = Some("root".to_owned());
    let status = at(0, None, &figures);
    assert!(status.exhausted);
    let exhausted = &status.conditions[1];
    assert_eq!(exhausted.reason, condition::ANCESTOR_EXHAUSTED);
    assert!(exhausted.message.contains("root"), "{exhausted:?}");
}

#[test]
fn a_problem_is_said_and_numbers_that_mean_nothing_are_not() {
    let problem = Problem {
        reason: condition::INVALID,
        message: "no such zone".to_owned(),
    };
    let status = status(&budget(), None, None, Some(&problem), 5);
    assert_eq!(since(&status, "Ready"), ("False".to_owned(), 5));
    assert_eq!(status.conditions[0].message, "no such zone");
    assert_eq!(status.remaining, None);
}

#[test]
fn what_time_alone_changes_is_no_news() {
    let before = at(10_000, None, &figures(0, 60, 1_000_000));
    let later = at(10_001, Some(&before), &figures(0, 61, 1_000_000));
    assert_ne!(before, later);
    assert!(!is_news(Some(&before), &later));
    assert!(is_news(None, &later));
    for changed in [figures(1, 60, 0), figures(0, 3_600, 0)] {
        let later = at(10_001, Some(&before), &changed);
        assert!(is_news(Some(&before), &later), "{later:?}");
    }
}
