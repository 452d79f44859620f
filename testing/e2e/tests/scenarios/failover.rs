//! Two extenders: the leader disappears in the middle of its work, and the other takes over.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;

use e2e::history::History;
use e2e::manifest::crowd;
use e2e::replicas::Replicas;
use e2e::world::recorded_card;
use e2e::{Kubectl, World, wait};
use gpushare_core::CardId;
use serde_json::{Value, json};

/// How many pods are created with one request.
const AT_ONCE: usize = 5;

/// A cluster with two extenders, and its history from now on.
fn cluster(cards: &[u64]) -> (World, Replicas, History) {
    let mut world = World::start(cards);
    let replicas = Replicas::start(&mut world);
    let history = History::record(&world);
    (world, replicas, history)
}

#[test]
fn the_leader_is_killed_during_two_hundred_pods_and_none_is_lost_or_bound_twice() {
    const PODS: usize = 200;
    /// How many pods are created only after the leader is dead, however fast it was before.
    const LATE: usize = 40;
    let (world, mut replicas, history) = cluster(&[26 * 1024; 8]);
    let first = replicas.leader(&world);
    let mut bound_before = 0;
    while_creating(&world, 0..PODS - LATE, || {
        wait_bound(&world, PODS / 4);
        replicas.process(first).kill();
        bound_before = bound(&world).len();
        create(&world, PODS - LATE..PODS);
        assert_eq!(replicas.leader(&world), first.other());
    });
    assert_eq!(wait_bound(&world, PODS).len(), PODS);
    println!("killed with {bound_before} of {PODS} pods bound; all {PODS} bound once");
    history.assert_all_bound_once(PODS, &world.card_sizes());
    assert_books_are_the_records(&world);
    wait_running(&world, PODS);

    // The killed replica comes back, and one of the two leads.
    replicas.restart(&world, first);
    wait_one_leads(&world, &replicas);
    assert_books_are_the_records(&world);
}

#[test]
fn leaders_that_are_asked_to_end_under_load_hand_over_and_lose_nothing() {
    const PODS: usize = 120;
    const TURNS: usize = 3;
    let (world, mut replicas, history) = cluster(&[16 * 1024; 8]);
    while_creating(&world, 0..PODS, || {
        for turn in 0..TURNS {
            let leader = replicas.leader(&world);
            wait_bound(&world, PODS / TURNS * turn + AT_ONCE);
            assert!(replicas.process(leader).terminate(), "it ends with success");
            assert_eq!(replicas.leader(&world), leader.other());
            replicas.restart(&world, leader);
        }
    });
    wait_bound(&world, PODS);
    history.assert_all_bound_once(PODS, &world.card_sizes());
    assert_books_are_the_records(&world);
}

/// Like a machine that hangs or is moved to another host. The scheduler's requests to the frozen replica are still in
/// its sockets when it wakes up.
#[test]
fn a_leader_frozen_until_the_other_leads_binds_nothing_when_it_wakes_up() {
    const PODS: usize = 40;
    let (world, mut replicas, history) = cluster(&[12 * 1024; 4]);
    let first = replicas.leader(&world);
    create(&world, 0..PODS / 2);
    wait_bound(&world, 2);
    replicas.process(first).freeze();
    create(&world, PODS / 2..PODS);
    wait::until("the other to lead", || match replicas.holder(&world) {
        Ok(holder) if holder == first.other() => Ok(()),
        other => Err(other),
    });
    replicas.process(first).thaw();
    wait_one_leads(&world, &replicas);
    wait_bound(&world, PODS);
    history.assert_all_bound_once(PODS, &world.card_sizes());
    assert_books_are_the_records(&world);
    replicas.process(first).assert_alive();
}

/// Creates pods, a few at a time, while `work` runs.
fn while_creating(world: &World, numbers: Range<usize>, work: impl FnOnce()) {
    thread::scope(|scope| {
        scope.spawn(|| {
            for start in numbers.clone().step_by(AT_ONCE) {
                create(world, start..numbers.end.min(start + AT_ONCE));
            }
        });
        work();
    });
}

fn create(world: &World, numbers: Range<usize>) {
    world.apply(&crowd("p", numbers, |_| {}));
}

fn bound(world: &World) -> Vec<Value> {
    let mut pods = world.pods().unwrap();
    pods.retain(|pod| !pod["spec"]["nodeName"].is_null());
    pods
}

fn wait_bound(world: &World, least: usize) -> Vec<Value> {
    wait::until(&format!("{least} pods to be bound"), || {
        let bound = bound(world);
        if bound.len() >= least {
            Ok(bound)
        } else {
            Err(format!("{} are", bound.len()))
        }
    })
}

/// Waits until both are alive and one of them leads.
fn wait_one_leads(world: &World, replicas: &Replicas) {
    wait::until("one to lead and the other to follow", || {
        let leader = replicas.leader(world);
        if replicas.follows(world, leader.other()) {
            Ok(())
        } else {
            Err(format!("{leader:?} leads, and the other does not follow"))
        }
    });
}

fn wait_running(world: &World, pods: usize) {
    wait::until("all pods to run", || {
        let ready = |pod: &&Value| pod["status"]["containerStatuses"][0]["ready"] == json!(true);
        match bound(world).iter().filter(ready).count() {
            all if all == pods => Ok(()),
            some => Err(format!("{some} of {pods}")),
        }
    });
}

fn assert_books_are_the_records(world: &World) {
    let mut recorded: BTreeMap<CardId, u64> = BTreeMap::new();
    for pod in bound(world) {
        *recorded.entry(recorded_card(&pod)).or_default() += 1;
    }
    let cards = world.cards().into_iter();
    let recorded = cards.map(|card| recorded.get(&card).copied().unwrap_or_default());
    assert_eq!(world.booked(), recorded.collect::<Vec<_>>());
}
