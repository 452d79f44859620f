//! The extender is killed at the worst moments, and rebuilds its books from the API server alone.

use std::collections::BTreeMap;

use e2e::api_proxy::{ApiProxy, Binds};
use e2e::history::History;
use e2e::manifest::crowd;
use e2e::world::recorded_card;
use e2e::{Kubectl, World, wait};
use gpushare_core::CardId;
use serde_json::Value;

const PODS: usize = 60;
/// How often the extender is killed at each kind of moment; `cargo xtask soak` asks for more.
const KILLS_OF_EACH_KIND: u64 = 4;

/// When the extender is killed, and what becomes of the bind that it had sent.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// It has booked; the bind never reaches the API server.
    BeforeAndLost,
    /// It has booked; the bind reaches the API server after the extender's death.
    BeforeAndDelivered,
    /// The API server has bound the pod; the answer never arrives.
    After,
}

const MOMENTS: [Moment; 3] = [
    Moment::BeforeAndLost,
    Moment::BeforeAndDelivered,
    Moment::After,
];

#[test]
fn killed_between_reservation_and_bind_or_right_after_it_nothing_is_lost_or_booked_twice() {
    let mut world = World::start(&[12 * 1024; 5]);
    let proxy = ApiProxy::in_front_of(&mut world);
    let history = History::record(&world);
    let kills = e2e::setting("GPUSHARE_SOAK_KILLS", KILLS_OF_EACH_KIND);
    let mut moments = (0..kills).flat_map(|_| MOMENTS).peekable();
    proxy.set(MOMENTS[0].hold());
    world.apply(&crowd("p", 0..PODS, |_| {}));
    while let Some(moment) = moments.next() {
        let held = proxy.caught();
        world.kill_extender();
        match moment {
            Moment::BeforeAndDelivered => held.deliver(),
            Moment::BeforeAndLost | Moment::After => held.lose(),
        }
        // Set before the restart, so that the first bind of the new process is caught.
        proxy.set(moments.peek().map_or(Binds::Pass, |next| next.hold()));
        world.start_extender();
    }
    world.wait_ready();

    let pods = wait_all_bound(&world);
    history.wait_for_bound(PODS);
    history.assert_never_over(&world.card_sizes());
    // After a last restart, the books must equal the records.
    world.restart_extender();
    let recorded = recorded(&pods);
    let booked: u64 = world.booked().iter().sum();
    assert_eq!(booked, recorded.values().sum::<u64>());
    assert_eq!(booked, PODS as u64);
    println!("{kills} kills at each of 3 moments: {booked} of {PODS} pods bound, each booked once");

    world
        .ctl("delete pods --all --grace-period=1 --wait=false")
        .unwrap();
    world.wait_free();
}

impl Moment {
    fn hold(self) -> Binds {
        match self {
            Self::BeforeAndLost | Self::BeforeAndDelivered => Binds::HoldBefore,
            Self::After => Binds::HoldAfter,
        }
    }
}

fn wait_all_bound(world: &World) -> Vec<Value> {
    let bound = |pods: &Vec<Value>| pods.iter().all(|pod| !pod["spec"]["nodeName"].is_null());
    wait::until_seen("every pod to be bound", || world.pods().unwrap(), bound)
}

fn recorded(pods: &[Value]) -> BTreeMap<CardId, u64> {
    let mut sums = BTreeMap::new();
    for pod in pods {
        *sums.entry(recorded_card(pod)).or_insert(0) += 1;
    }
    sums
}
