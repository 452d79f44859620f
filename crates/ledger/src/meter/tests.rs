use super::*;
use crate::period::Calendar;

const GRID: Seconds = 300;

fn booking(begin: Seconds, end: Option<Seconds>) -> Booking {
    Booking {
        pod: PodUid::new("uid"),
        namespace: "a".to_owned(),
        name: "p".to_owned(),
        begin,
        end,
        rate: Rate::from_micros(500_000),
        formula: "max/1".to_owned(),
        cards: Arc::default(),
    }
}

fn day(budget: &str, zone: &str) -> Tier {
    Tier {
        budget: budget.to_owned(),
        schedule: Schedule::calendar(Calendar::Day, zone).unwrap(),
    }
}

fn intervals(plan: &Plan) -> Vec<(Seconds, Seconds)> {
    let charges = plan.charges.iter();
    charges.map(|charge| (charge.from, charge.to)).collect()
}

fn check(
    booking: &Booking,
    through: Option<Seconds>,
    now: Seconds,
    expected: &[(Seconds, Seconds)],
    settle: Option<Seconds>,
    held: i64,
) {
    let plan = plan(booking, &[], through, now, GRID).unwrap();
    assert_eq!(intervals(&plan), expected);
    assert_eq!(plan.settle, settle);
    assert_eq!(plan.held.micros(), held * 500_000);
}

#[test]
fn what_runs_is_charged_by_full_cells_of_the_grid_and_the_rest_is_held() {
    let running = booking(100, None);
    check(&running, None, 100, &[], None, 0);
    check(&running, None, 299, &[], None, 199);
    check(&running, None, 700, &[(100, 300), (300, 600)], None, 100);
    check(&running, Some(300), 700, &[(300, 600)], None, 100);
}

#[test]
fn what_has_ended_is_charged_to_the_second_and_settled() {
    let ended = booking(100, Some(650));
    let all = [(100, 300), (300, 600), (600, 650)];
    check(&ended, None, 700, &all, Some(650), 0);
    check(&ended, Some(650), 9_999, &[], Some(650), 0);
}

#[test]
fn what_was_charged_past_the_end_is_only_settled() {
    check(&booking(100, Some(250)), Some(600), 700, &[], Some(250), 0);
}

#[test]
fn clocks_that_disagree_charge_nothing_twice_and_nothing_early() {
    check(&booking(100, None), Some(600), 400, &[], None, 0);
    let ahead = booking(100, Some(900));
    check(&ahead, Some(300), 700, &[(300, 600)], None, 100);
    check(&booking(500, Some(400)), None, 600, &[], Some(500), 0);
}

#[test]
fn a_bind_that_is_told_to_be_later_leaves_no_gap_after_what_is_charged() {
    let late = booking(700, Some(800));
    let rest = [(300, 600), (600, 800)];
    check(&late, Some(300), 900, &rest, Some(800), 0);
}

#[test]
fn a_late_plan_has_the_intervals_of_many_early_ones() {
    let running = booking(100, Some(5_000));
    let chain = [day("leaf", "Europe/Berlin"), day("root", "Asia/Kolkata")];
    let late = plan(&running, &chain, None, 9_000, GRID).unwrap();
    let mut early = Vec::new();
    let mut through = None;
    for now in (0..9_000).step_by(77) {
        let seen = Booking {
            end: running.end.filter(|end| *end <= now),
            ..running.clone()
        };
        let plan = plan(&seen, &chain, through, now, GRID).unwrap();
        early.extend(plan.charges);
        through = early.last().map(|charge| charge.to);
    }
    assert_eq!(early, late.charges);
}

#[test]
fn intervals_end_where_a_slot_of_any_budget_ends() {
    // Midnight of Berlin is 23:00 UTC, that of Kolkata 18:30 UTC.
    let chain = [day("leaf", "Europe/Berlin"), day("root", "Asia/Kolkata")];
    let plan = plan(&booking(0, Some(86_400)), &chain, None, 86_400, 7_000).unwrap();
    let cuts: Vec<Seconds> = plan.charges.iter().map(|charge| charge.to).collect();
    assert!(
        cuts.contains(&(18 * 3600 + 1800)) && cuts.contains(&(23 * 3600)),
        "{cuts:?}"
    );
    let last = plan.charges.last().unwrap();
    assert_eq!(last.legs[0], Leg::new("leaf", 23 * 3600));
    assert_eq!(last.legs[1], Leg::new("root", 18 * 3600 + 1800));
    let total = Amount::sum(plan.charges.iter().map(|charge| charge.amount().unwrap())).unwrap();
    assert_eq!(total.whole_seconds(), 43_200);
}

fn times(ended: bool, finished: &[Option<Seconds>]) -> Times {
    Times {
        bound: 10,
        ended,
        finished: finished.to_vec(),
        conditions: vec![12, 70],
        ..Times::default()
    }
}

#[test]
fn a_pod_ends_with_the_last_of_its_containers() {
    assert_eq!(end(&times(false, &[Some(20), None])), None);
    assert_eq!(end(&times(true, &[Some(20), Some(30)])), Some(30));
    assert_eq!(end(&times(true, &[Some(5)])), Some(10));
}

#[test]
fn where_a_finish_time_never_comes_the_last_word_about_the_pod_counts() {
    assert_eq!(end(&times(true, &[Some(20), None])), Some(70));
    assert_eq!(end(&times(true, &[])), Some(70));
    let lost = Times {
        released: Some(50),
        ..times(true, &[None])
    };
    assert_eq!(end(&lost), Some(50));
}

#[test]
fn a_deleted_pod_without_grace_has_ended_whatever_its_phase() {
    let deleted = |finished| Times {
        released: Some(50),
        ..times(false, &[finished])
    };
    assert_eq!(end(&deleted(None)), Some(50));
    assert_eq!(end(&deleted(Some(40))), Some(40));
    let vanished = Times {
        vanished: Some(60),
        ..times(false, &[None])
    };
    assert_eq!(end(&vanished), Some(60));
}
