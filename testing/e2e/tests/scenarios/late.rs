//! A bind that the network delays until every part has given it up.

use e2e::World;
use e2e::api_proxy::{ApiProxy, Binds};
use e2e::history::History;
use e2e::manifest::{aliyun, pod};
use e2e::world::NODE;
use serde_json::json;

#[test]
fn a_bind_that_arrives_when_its_card_was_given_to_another_pod_is_refused() {
    let mut world = World::start(&[12 * 1024]);
    let proxy = ApiProxy::start(&world, &world.kubeconfig("gpushare-extender"));
    let kubeconfig = world.kubeconfig("through-proxy");
    proxy.write_kubeconfig(&kubeconfig);
    world.extender.as_mut().unwrap().kill();
    world.start_extender_with(&kubeconfig);
    world.wait_ready();
    let history = History::record(&world);
    proxy.set(Binds::HoldBefore);
    world.apply(&pod("first", aliyun(12)));
    let late = proxy.caught();
    // Without the taint the scheduler would try the first pod again, and it would be unclear which bind took effect.
    let taint = "late=bind:NoSchedule";
    world
        .rig()
        .kubectl(&["taint", "node", NODE, taint])
        .unwrap();
    proxy.set(Binds::Pass);
    let mut second = pod("second", aliyun(12));
    second["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    world.apply(&second);
    world.wait_running("second");

    assert_eq!(late.deliver_late().as_u16(), 409);
    let first = world.pod("first").unwrap();
    assert!(first["spec"]["nodeName"].is_null(), "{first}");
    assert_eq!(world.booked(), [12]);
    history.assert_never_over(&world.card_sizes());

    world.delete("second");
    world
        .rig()
        .kubectl(&["taint", "node", NODE, "late-"])
        .unwrap();
    world.wait_running("first");
}
