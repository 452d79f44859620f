//! A bind that the network delays until every part has given up on it.

use e2e::api_proxy::{ApiProxy, Binds};
use e2e::history::History;
use e2e::manifest::{aliyun, pod};
use e2e::world::NODE;
use e2e::{Kubectl, World};
use serde_json::json;

#[test]
fn a_bind_that_arrives_when_its_card_was_given_to_another_pod_is_refused() {
    let mut world = World::start(&[12 * 1024]);
    let proxy = ApiProxy::in_front_of(&mut world);
    let history = History::record(&world);
    proxy.set(Binds::HoldBefore);
    world.apply(&pod("first", aliyun(12)));
    let late = proxy.caught();
    // Without the taint the scheduler would try the first pod again, and it would be unclear which bind took effect.
    let taint = |taint: &str| world.ctl(&format!("taint node {NODE} {taint}")).unwrap();
    taint("late=bind:NoSchedule");
    proxy.set(Binds::Pass);
    let mut second = pod("second", aliyun(12));
    second["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    world.runs(&second);

    assert_eq!(late.deliver_late().as_u16(), 409);
    let first = world.pod("first").unwrap();
    assert!(first["spec"]["nodeName"].is_null(), "{first}");
    assert_eq!(world.booked(), [12]);
    history.assert_never_over(&world.card_sizes());

    world.delete("second");
    taint("late-");
    world.wait_running("first");
}
