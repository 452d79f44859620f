mod world;

use gpushare_core::preempt::Evictor;
use gpushare_kube::convert::PodFacts;

use super::*;
use crate::books::tests::NODE;
use world::{HIGH, LOW, World, evicting, fragmented};

pub(super) use world::{CARD_GIB, MINUTE, Pod, SECOND, START, contend, empty};

#[test]
fn a_claim_is_written_before_anybody_goes_and_the_pod_is_woken_when_they_have_gone() {
    let mut world = fragmented();
    let write = world.contends("high").unwrap();
    assert!(matches!(write, Step::Write { .. }), "{write:?}");
    let now = world.now();
    assert!(
        world.books.preemption_steps(now).0.is_empty(),
        "nobody goes before it is written"
    );
    world.does("high", &write);
    let Step::Evict { victims, .. } = world.does_step("high") else {
        panic!("the victim is to be evicted");
    };
    let [victim] = victims.as_slice() else {
        panic!("{victims:?}");
    };
    assert!(!world.fits("high"));
    world.is_gone(victim.uid.as_str());
    assert!(matches!(world.does_step("high"), Step::Wake { .. }));
    world.create(Pod::new("thief", 4, LOW));
    assert!(!world.fits("thief"));
    world.binds("thief").unwrap_err();
    world.binds("high").unwrap();
    assert_eq!(world.books.preemptions().count(), 0);
    assert!(world.is_idle());
}

#[test]
fn an_answer_that_is_lost_is_made_up_for_by_the_watch() {
    let mut world = fragmented();
    let write = world.contends("high").unwrap();
    world.finish("high", &write, Outcome::Failed);
    world.waits();
    let again = world.step("high");
    assert_eq!(again, write);
    let Step::Write { record, .. } = again.clone() else {
        panic!("{again:?}");
    };
    world.change("high", |pod| pod.claim = Some(record));
    world.finish("high", &again, Outcome::Failed);
    assert!(matches!(world.step("high"), Step::Evict { .. }));
}

#[test]
fn room_that_appears_otherwise_spares_the_victims() {
    let mut world = fragmented();
    world.claims("high");
    let victim = world
        .books
        .preemptions()
        .claim(&"high".into())
        .unwrap()
        .victims[0]
        .clone();
    let other = if victim.as_str() == "a" { "b" } else { "a" };
    world.is_gone(other);
    assert!(matches!(world.step("high"), Step::Wake { .. }));
    assert!(
        !world
            .books
            .situation()
            .must_go(&other.into(), &"high".into())
    );
}

#[test]
fn who_does_not_end_is_waited_for_until_it_is_overdue_and_then_others_are_looked_for() {
    let mut world = evicting();
    world.waits();
    assert_eq!(world.step("high"), Step::GiveUp(Reason::Stuck));
    world.does("high", &Step::GiveUp(Reason::Stuck));
    assert_eq!(world.books.preemptions().count(), 0);
    assert_eq!(world.does_step("high"), Step::Clear);
    assert!(world.is_idle());
    // There is no other victim on the only card.
    assert_eq!(world.contends("high"), Err(StaleProposal::Node));
}

#[test]
fn who_is_given_long_to_end_is_waited_for_longer_than_a_preemption_lasts() {
    let mut world = World::new(1);
    world.runs("victim", 8, LOW);
    world.create(Pod::new("high", 8, HIGH));
    world.claims("high");
    let evict = world.step("high");
    world.ends("victim", 3600);
    world.finish("high", &evict, Outcome::Done);
    world.millis += 30 * MINUTE;
    world.waits();
    assert_eq!(world.step("high"), Step::GiveUp(Reason::Late));
    assert!(world.millis > START + 60 * MINUTE);
}

#[test]
fn room_that_nobody_comes_for_is_given_up_and_others_get_it() {
    let mut world = evicting();
    world.is_gone("victim");
    while let Step::Wake { .. } = world.does_step("high") {
        world.waits();
    }
    assert!(world.millis >= START + 10 * MINUTE);
    assert_eq!(world.does_step("high"), Step::Clear);
    world.create(Pod::new("next", 8, LOW));
    world.binds("next").unwrap();
}

#[test]
fn what_the_scheduler_evicts_is_left_to_it_for_a_while() {
    let mut world = fragmented();
    let first = world.contends_by("high", Evictor::Scheduler).unwrap();
    world.does("high", &first);
    world.waits();
    assert!(world.millis > START + 15 * SECOND);
    assert!(matches!(world.step("high"), Step::Evict { .. }));
}

#[test]
fn a_restarted_extender_goes_on_from_what_the_pods_show() {
    let mut world = fragmented();
    world.claims("high");
    world.restarts(2);
    assert_eq!(world.books.preemptions().count(), 1);
    let Step::Evict { victims, .. } = world.does_step("high") else {
        panic!("the victim is still to be evicted");
    };
    world.restarts(2);
    world.create(Pod::new("thief", 4, LOW));
    world.is_gone(victims[0].uid.as_str());
    assert!(!world.fits("thief"));
    world.restarts(2);
    assert!(!world.fits("thief"));
    assert!(matches!(world.does_step("high"), Step::Wake { .. }));
    world.binds("high").unwrap();
    world.restarts(2);
    assert_eq!(world.books.preemptions().count(), 0);
}

#[test]
fn a_claim_that_was_left_long_ago_is_given_up_by_whoever_finds_it() {
    let mut world = evicting();
    world.is_gone("victim");
    world.millis += 24 * 60 * MINUTE;
    world.restarts(1);
    assert_eq!(world.does_step("high"), Step::GiveUp(Reason::Late));
    assert_eq!(world.does_step("high"), Step::Clear);
    assert_eq!(world.pod("high").claim, None);
}

#[test]
fn a_preemptor_that_goes_or_is_bound_elsewhere_gives_its_room_back() {
    let mut world = evicting();
    world.is_gone("victim");
    world.is_gone("high");
    assert!(world.is_idle());
    world.create(Pod::new("next", 8, LOW));
    world.binds("next").unwrap();

    let mut world = evicting();
    world.is_gone("victim");
    let mut bound = world.pod("high").facts();
    bound.node = Some("elsewhere".into());
    world.books.apply_pod(bound);
    assert!(world.is_idle());
    world.create(Pod::new("next", 8, LOW));
    world.binds("next").unwrap();
}

#[test]
fn a_preemptor_that_is_gone_spares_the_victims_that_were_not_told_yet() {
    let mut world = World::new(1);
    world.runs("one", 4, LOW);
    world.runs("two", 4, LOW);
    world.create(Pod::new("high", 8, HIGH));
    world.claims("high");
    let evict = world.step("high");
    assert!(
        world
            .books
            .situation()
            .must_go(&"one".into(), &"high".into())
    );
    world.ends("one", 30);
    world.is_gone("high");
    assert!(
        !world
            .books
            .situation()
            .must_go(&"two".into(), &"high".into())
    );
    world.finish("high", &evict, Outcome::Done);
    assert!(world.is_idle());
}

#[test]
fn two_pods_do_not_claim_one_card_unless_one_outranks_the_other() {
    let mut world = evicting();
    world.create(Pod::new("equal", 8, HIGH));
    assert_eq!(world.contends("equal"), Err(StaleProposal::Node));
    world.create(Pod::new("higher", 8, HIGH + 1));
    let write = world.contends("higher").unwrap();
    assert_eq!(world.books.preemptions().count(), 1);
    world.does("higher", &write);
    assert_eq!(world.does_step("high"), Step::Clear);
    world.is_gone("victim");
    assert!(!world.fits("high"));
    assert!(matches!(world.step("higher"), Step::Wake { .. }));
}

#[test]
fn one_card_is_claimed_for_as_many_pods_as_will_share_it_whatever_their_priorities() {
    let mut world = World::new(1);
    world.runs("victim", 8, LOW);
    world.create(Pod::new("high", 4, HIGH));
    world.claims("high");
    for (uid, priority) in [("equal", HIGH), ("higher", HIGH + 1)] {
        world.create(Pod::new(uid, 2, priority));
        let write = world.contends(uid).unwrap();
        world.does(uid, &write);
        let claim = world.books.preemptions().claim(&uid.into()).unwrap();
        assert_eq!(
            claim.victims,
            [],
            "whoever goes anyway goes for this one too"
        );
    }
    assert_eq!(world.books.preemptions().count(), 3);
    assert!(matches!(world.does_step("high"), Step::Evict { .. }));
    // A pod that needs the whole card ends the claims of all pods of lower priority.
    world.create(Pod::new("highest", 8, HIGH + 2));
    let write = world.contends("highest").unwrap();
    world.does("highest", &write);
    assert_eq!(world.books.preemptions().count(), 1);
}

#[test]
fn a_replica_that_stops_leading_forgets_what_it_did_not_write() {
    let mut world = fragmented();
    let write = world.contends("high").unwrap();
    world.books.stop_preempting();
    assert_eq!(world.books.preemptions().count(), 0);
    // Its last request arrives nevertheless; the next leader continues from there.
    world.does("high", &write);
    assert_eq!(world.books.preemptions().count(), 1);
    assert!(matches!(world.step("high"), Step::Evict { .. }));
}

#[test]
fn a_replica_that_stops_leading_does_not_end_later_what_another_leader_goes_on_with() {
    let mut world = evicting();
    world.books.end_preemption(&"high".into());
    world.books.stop_preempting();
    let listed: Vec<PodFacts> = world.pods.iter().map(Pod::facts).collect();
    world.books.replace_pods(listed, &[]);
    assert_eq!(world.books.preemptions().count(), 1);
    world.is_gone("victim");
    assert!(matches!(world.step("high"), Step::Wake { .. }));
}

#[test]
fn a_claim_that_another_leader_took_off_is_over_here_too() {
    let mut world = evicting();
    world.change("high", |pod| pod.claim = None);
    assert_eq!(world.books.preemptions().count(), 0);
    world.is_gone("victim");
    world.create(Pod::new("next", 8, LOW));
    world.binds("next").unwrap();
}

#[test]
fn an_ended_claim_that_the_watch_still_shows_is_not_taken_up_again() {
    let mut world = evicting();
    world.books.end_preemption(&"high".into());
    let shown = world.pod("high").facts();
    world.books.apply_pod(shown.clone());
    assert_eq!(world.books.preemptions().count(), 0);
    assert_eq!(world.does_step("high"), Step::Clear);
    world.books.apply_pod(shown);
    assert_eq!(world.books.preemptions().count(), 0);
    // The claim came back, so it is removed again.
    assert_eq!(world.does_step("high"), Step::Clear);
    assert!(world.is_idle());
}

#[test]
fn a_removed_claim_is_forgotten_with_the_next_change_of_its_pod() {
    let mut world = evicting();
    world.books.end_preemption(&"high".into());
    // The watch shows the removal before the answer comes.
    assert_eq!(world.does_step("high"), Step::Clear);
    assert!(world.is_idle());
    world.change("high", |_| {});
    assert!(world.books.preemptions().uids().is_empty());
}

#[test]
fn a_claim_that_does_not_agree_with_its_pod_is_not_believed() {
    let mut world = evicting();
    let stolen = world.pod("high").claim.clone();
    let mut thief = Pod::new("thief", 8, HIGH);
    thief.claim = stolen.clone();
    world.create(thief);
    assert_eq!(world.books.preemptions().count(), 1, "it is another pod's");
    world.restarts(1);
    assert_eq!(world.books.preemptions().count(), 1);
    let smaller = stolen.map(|claim| claim.replace("8192", "1024"));
    world.is_gone("high");
    let mut high = Pod::new("high", 8, HIGH);
    high.claim = smaller;
    world.create(high);
    assert_eq!(world.books.preemptions().count(), 0, "it is for less");
    for text in ["", "{}", "null", "\u{0}"] {
        world.change("high", |pod| pod.claim = Some(text.to_owned()));
        assert_eq!(world.books.preemptions().count(), 0, "{text:?}");
    }
}

#[test]
fn nobody_goes_for_a_pod_that_does_not_outrank_it_whatever_a_claim_says() {
    for (priority, never_preempts) in [(LOW, false), (LOW - 1, false), (HIGH, true)] {
        let mut world = evicting();
        world.change("victim", |pod| pod.ends_by = None);
        world.change("high", |pod| {
            pod.priority = priority;
            pod.never_preempts = never_preempts;
        });
        assert_eq!(world.does_step("high"), Step::GiveUp(Reason::NoRoom));
    }
}

#[test]
fn a_pod_that_nobody_asked_about_contends_while_somebody_over_budget_has_a_node() {
    let mut world = World::new(1);
    world.runs("holder", 8, LOW);
    world.create(Pod::new("equal", 8, LOW));
    let contends = |world: &World| world.books.next_contender(world.now()).0.is_some();
    assert!(!contends(&world));
    world.change("holder", |pod| pod.over_budget = true);
    assert!(contends(&world));
    let node = NODE.into();
    assert_eq!(world.books.nodes_to_win_back(&"equal".into()), [node]);
    // No victims were found for it, and it contends again after a while.
    let at = world.now().instant;
    world.books.contend_later(&"equal".into(), at);
    assert!(!contends(&world));
    world.millis += MINUTE;
    assert!(contends(&world));
    // A pod that is over budget itself does not contend, and none does once no pod on a node is over budget.
    world.change("equal", |pod| pod.over_budget = true);
    assert!(!contends(&world));
    world.change("equal", |pod| pod.over_budget = false);
    assert!(contends(&world));
    world.change("holder", |pod| pod.over_budget = false);
    assert!(!contends(&world));
}

#[test]
fn whoever_is_demoted_goes_for_a_pod_of_equal_priority_and_is_spared_when_it_is_back_in_budget() {
    let mut world = World::new(1);
    world.runs("holder", 8, LOW);
    world.create(Pod::new("equal", 8, LOW));
    assert_eq!(world.contends("equal").unwrap_err(), StaleProposal::Node);
    world.change("holder", |pod| pod.over_budget = true);
    world.claims("equal");
    world.change("holder", |pod| pod.over_budget = false);
    assert_eq!(world.does_step("equal"), Step::GiveUp(Reason::NoRoom));
}

#[test]
fn a_claim_on_a_node_or_card_that_is_gone_is_given_up() {
    let mut world = evicting();
    world.is_gone("victim");
    world.books.delete_node(NODE);
    assert_eq!(world.does_step("high"), Step::GiveUp(Reason::NoRoom));
    assert_eq!(world.does_step("high"), Step::Clear);
}

#[test]
fn where_no_preemption_is_wanted_those_that_were_left_are_taken_off() {
    let mut world = evicting();
    world.restarts(1);
    world.books.end_all_preemptions();
    assert_eq!(world.does_step("high"), Step::Clear);
    assert!(world.is_idle());
    assert_eq!(world.pod("high").claim, None);
}
