//! One candidate and what it sees, case by case. `lease_model` tests several candidates with events in
//! any order.

use gpushare_core::lease::{Candidate, Lease, Millis, Step, Term, Timing, TimingError};

const TIMING: Timing = Timing {
    duration: 2_000,
    renew_deadline: 1_000,
    retry: 200,
};

fn lease(holder: &str, renewals: u64, transitions: u64) -> Lease {
    Lease {
        holder: holder.to_owned(),
        renewals: renewals.to_string(),
        transitions,
        duration: Some(TIMING.duration),
    }
}

fn given_back(renewals: u64, transitions: u64) -> Lease {
    Lease {
        duration: None,
        ..lease("", renewals, transitions)
    }
}

/// The step of a candidate that may write the lease, with this number of transitions in it.
fn take(transitions: u64) -> Step {
    Step::Take { transitions }
}

/// Checks in which term the candidate leads, and until when without a renewal.
fn leads_term(candidate: &Candidate, number: u64, until: Millis) {
    assert_eq!(candidate.term(), Some(Term { number, until }));
}

/// A candidate that took the lease at this moment.
fn leader(now: Millis) -> Candidate {
    let mut candidate = Candidate::new("a", TIMING);
    candidate.step(now, Some(given_back(1, 4)));
    candidate.wrote(now, lease("a", 2, 5));
    candidate
}

/// Lets the leader `a` of term 5 write its lease at this moment, and checks the number of transitions
/// in it.
fn renew(leader: &mut Candidate, now: Millis, transitions: u64) {
    let step = leader.step(now, Some(lease("a", 2, 5)));
    assert_eq!(step, take(transitions));
    leader.wrote(now + 10, lease("a", 3, transitions));
}

#[test]
fn a_lease_that_does_not_exist_is_created_for_nobody_and_then_waited_for() {
    let mut candidate = Candidate::new("a", TIMING);
    assert_eq!(candidate.step(0, None), Step::Create);
    let created = lease("", 1, 0);
    let step = candidate.step(10, Some(created.clone()));
    assert_eq!(step, Step::Wait(TIMING.retry));
    assert!(!candidate.leads(10));
    assert_eq!(candidate.step(2_011, Some(created)), take(1));
}

#[test]
fn a_held_lease_is_respected_for_its_duration_as_this_clock_saw_it() {
    let mut candidate = Candidate::new("b", TIMING);
    let held = || Some(lease("a", 1, 3));
    assert_eq!(candidate.step(10_000, held()), Step::Wait(200));
    assert_eq!(candidate.step(12_000, held()), Step::Wait(1));
    assert_eq!(candidate.step(12_001, held()), take(4));
}

#[test]
fn a_holder_that_asks_for_longer_gets_longer() {
    let mut candidate = Candidate::new("b", TIMING);
    let mut held = lease("a", 1, 3);
    held.duration = Some(9_000);
    candidate.step(0, Some(held.clone()));
    assert_eq!(candidate.step(9_000, Some(held.clone())), Step::Wait(1));
    assert_eq!(candidate.step(9_001, Some(held)), take(4));
}

#[test]
fn a_renewal_starts_the_wait_again() {
    let mut candidate = Candidate::new("b", TIMING);
    candidate.step(0, Some(lease("a", 1, 0)));
    candidate.step(1_900, Some(lease("a", 2, 0)));
    let step = candidate.step(2_100, Some(lease("a", 2, 0)));
    assert_eq!(step, Step::Wait(200));
}

#[test]
fn a_lease_given_back_is_taken_at_once() {
    let mut candidate = Candidate::new("b", TIMING);
    let step = candidate.step(0, Some(given_back(9, 2)));
    assert_eq!(step, take(3));
}

#[test]
fn a_lease_whose_holder_someone_removed_is_waited_for() {
    let mut candidate = Candidate::new("b", TIMING);
    assert_eq!(candidate.step(0, Some(lease("", 9, 2))), Step::Wait(200));
}

#[test]
fn a_leader_that_cannot_renew_stops_by_itself() {
    let candidate = leader(0);
    assert!(candidate.leads(999));
    assert!(!candidate.leads(1_000));
}

#[test]
fn a_renewal_prolongs_the_same_term_from_the_moment_it_was_sent() {
    let mut candidate = leader(0);
    leads_term(&candidate, 1, 1_000);
    renew(&mut candidate, 500, 5);
    leads_term(&candidate, 1, 1_510);
}

#[test]
fn a_leader_that_lapsed_begins_a_new_term_though_nobody_else_led() {
    let mut candidate = leader(0);
    renew(&mut candidate, 1_200, 6);
    leads_term(&candidate, 2, 2_210);
}

#[test]
fn a_leader_whose_first_write_was_not_answered_finds_itself_in_the_lease() {
    let mut candidate = Candidate::new("a", TIMING);
    candidate.step(0, Some(given_back(1, 4)));
    assert!(!candidate.leads(300), "it cannot know yet");
    let step = candidate.step(300, Some(lease("a", 2, 5)));
    assert_eq!(step, take(6));
}

#[test]
fn a_restarted_leader_of_the_same_name_waits_like_any_other() {
    let mut candidate = Candidate::new("a", TIMING);
    assert_eq!(candidate.step(0, Some(lease("a", 1, 4))), Step::Wait(200));
    assert!(!candidate.leads(0));
    assert_eq!(candidate.step(2_001, Some(lease("a", 1, 4))), take(5));
}

#[test]
fn a_leader_that_sees_another_holder_or_no_lease_stops_at_once() {
    for seen in [Some(lease("b", 3, 6)), Some(lease("", 3, 5)), None] {
        let mut candidate = leader(0);
        candidate.step(10, seen.clone());
        assert!(!candidate.leads(11), "{seen:?}");
    }
}

#[test]
fn a_leader_that_resigned_leads_no_more_and_does_not_know_its_name_again() {
    let mut candidate = leader(0);
    candidate.resign();
    assert!(!candidate.leads(1));
    assert_eq!(candidate.step(2, Some(lease("a", 2, 5))), Step::Wait(200));
}

#[test]
fn a_lease_that_ends_before_its_leaders_last_act_is_refused() {
    let usual = Timing::default();
    assert_eq!(usual.check(3_000), Ok(()), "the default bind");
    assert!(matches!(
        usual.check(5_000),
        Err(TimingError::TooShort { needed: 15_790, .. })
    ));
    for retry in [6_000, 0] {
        let checked = Timing { retry, ..usual }.check(0);
        assert!(
            matches!(checked, Err(TimingError::Retry { .. })),
            "{checked:?}"
        );
    }
    for duration in [0, 14_500] {
        let timing = Timing { duration, ..usual };
        assert_eq!(timing.check(0), Err(TimingError::Fraction(duration)));
    }
    let endless = Timing {
        renew_deadline: Millis::MAX,
        ..usual
    };
    assert!(endless.check(Millis::MAX).is_err());
}
