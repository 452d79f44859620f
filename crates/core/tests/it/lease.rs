//! At most one candidate leads at any moment, whatever the network does.

use gpushare_core::lease::{Candidate, Lease, Millis, Step, Timing};
use proptest::prelude::*;

const TIMING: Timing = Timing {
    duration: 1_500,
    renew_deadline: 1_000,
    retry: 200,
};

fn lease(holder: &str, renewals: u64, transitions: u64) -> Lease {
    Lease {
        holder: holder.to_owned(),
        renewals: renewals.to_string(),
        transitions,
        duration: TIMING.duration,
    }
}

#[test]
fn the_first_candidate_creates_the_lease_and_leads() {
    let mut candidate = Candidate::new("a", TIMING);
    assert_eq!(candidate.step(0, None), Step::Create { transitions: 0 });
    assert!(!candidate.leads(0));
    candidate.wrote(5, lease("a", 1, 0));
    assert!(candidate.leads(6));
    assert_eq!(candidate.epoch(), Some(0));
}

#[test]
fn a_held_lease_is_respected_for_its_duration_as_this_clock_saw_it() {
    let mut candidate = Candidate::new("b", TIMING);
    assert_eq!(
        candidate.step(10_000, Some(lease("a", 1, 3))),
        Step::Wait(200)
    );
    assert_eq!(
        candidate.step(11_500, Some(lease("a", 1, 3))),
        Step::Wait(1)
    );
    assert_eq!(
        candidate.step(11_501, Some(lease("a", 1, 3))),
        Step::Take { transitions: 4 }
    );
}

#[test]
fn a_renewal_starts_the_wait_again() {
    let mut candidate = Candidate::new("b", TIMING);
    candidate.step(0, Some(lease("a", 1, 0)));
    candidate.step(1_400, Some(lease("a", 2, 0)));
    assert_eq!(
        candidate.step(1_600, Some(lease("a", 2, 0))),
        Step::Wait(200)
    );
}

#[test]
fn a_lease_given_back_is_taken_at_once() {
    let mut candidate = Candidate::new("b", TIMING);
    assert_eq!(
        candidate.step(0, Some(lease("", 9, 2))),
        Step::Take { transitions: 3 }
    );
}

#[test]
fn a_leader_that_cannot_renew_stops_by_itself() {
    let mut candidate = Candidate::new("a", TIMING);
    candidate.step(0, None);
    candidate.wrote(0, lease("a", 1, 0));
    assert!(candidate.leads(999));
    assert!(!candidate.leads(1_000));
}

#[test]
fn a_restarted_leader_with_the_same_name_begins_a_new_term() {
    let mut candidate = Candidate::new("a", TIMING);
    assert_eq!(
        candidate.step(0, Some(lease("a", 1, 4))),
        Step::Take { transitions: 5 }
    );
}

#[test]
fn a_leader_that_sees_another_holder_stops_at_once() {
    let mut candidate = Candidate::new("a", TIMING);
    candidate.step(0, None);
    candidate.wrote(0, lease("a", 1, 0));
    candidate.step(10, Some(lease("b", 2, 1)));
    assert!(!candidate.leads(11));
}

/// What happens at one tick of true time.
#[derive(Clone, Debug)]
struct Tick {
    /// How much true time passes.
    pause: Millis,
    who: usize,
    /// How long the read and the write take.
    read: Millis,
    write: Millis,
    /// The answer to the write is lost.
    lost: bool,
}

fn tick() -> impl Strategy<Value = Tick> {
    let lost = prop::bool::weighted(0.1);
    (0..700_u64, 0..3_usize, 0..300_u64, 0..1_200_u64, lost).prop_map(
        |(pause, who, read, write, lost)| Tick {
            pause,
            who,
            read,
            write,
            lost,
        },
    )
}

proptest! {
    /// Candidates whose clocks differ by up to a tenth in speed and by anything in their start.
    #[test]
    fn never_two_leaders(
        ticks in prop::collection::vec(tick(), 1..200),
        speeds in prop::array::uniform3(95..=105_u64),
    ) {
        let clock = |who: usize, truth: Millis| (truth + 7_919 * who as u64) * speeds[who] / 100;
        let mut candidates = ["a", "b", "c"].map(|name| Candidate::new(name, TIMING));
        let mut stored: Option<(Lease, u64)> = None;
        let (mut now, mut version, mut epochs) = (0, 0_u64, Vec::new());
        for tick in ticks {
            now += tick.pause;
            let who = tick.who;
            let read = stored.clone();
            let based_on = read.as_ref().map(|(_, version)| *version);
            let read_done = now + tick.read;
            let step = candidates[who].step(clock(who, read_done), read.map(|(lease, _)| lease));
            let (Step::Create { transitions } | Step::Take { transitions }) = step else { continue };
            let began = clock(who, read_done);
            // Others may write while this one is on its way; here the store is single-threaded, so
            // the version decides.
            if stored.as_ref().map(|(_, version)| *version) == based_on {
                version += 1;
                let name = ["a", "b", "c"][who];
                let written = lease(name, version, transitions);
                stored = Some((written.clone(), version));
                if !tick.lost {
                    candidates[who].wrote(began, written);
                }
            }
            now = read_done + tick.write.min(50);
            let leaders: Vec<usize> =
                (0..3).filter(|who| candidates[*who].leads(clock(*who, now))).collect();
            prop_assert!(leaders.len() <= 1, "{leaders:?} at {now}");
            epochs.extend(leaders.iter().filter_map(|who| candidates[*who].epoch()));
            prop_assert!(epochs.is_sorted(), "an epoch went back: {epochs:?}");
        }
    }
}
