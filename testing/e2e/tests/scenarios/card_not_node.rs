//! The free memory of a single card decides, not that of the whole node.

use e2e::manifest::{aliyun, gpushare, pod};
use e2e::{Kubectl, World};
use gpushare_testkit::assert_contains;

use crate::fragment;

#[test]
fn a_pod_of_eight_waits_where_two_cards_have_four_each_and_runs_where_one_has_eight() {
    let fragmented = World::start(&[8192, 8192]);
    fragment(&fragmented);

    fragmented.apply(&pod("eight", aliyun(8)));
    let event = fragmented.wait_event("eight", "gpushare:");
    assert_contains(
        &event,
        "no card has 8192 MiB of memory free, the most is 4096",
    );
    let waiting = fragmented.pod("eight").unwrap();
    assert_eq!(waiting["status"]["phase"], "Pending");
    assert_eq!(waiting["spec"]["nodeName"], serde_json::Value::Null);
    assert_eq!(fragmented.booked(), [4, 4]);
    drop(fragmented);

    let whole = World::start(&[4096, 8192]);
    whole.apply(&pod("eight", aliyun(8)));
    assert_eq!(whole.card_sizes()[&whole.card_of("eight")], 8192);
}

#[test]
fn our_own_dialect_counts_in_mib() {
    let world = World::start(&[2048, 2048]);
    for name in ["one", "two"] {
        world.apply(&pod(name, gpushare(1500)));
        world.card_of(name);
        let env = world.env_inside(name);
        assert_eq!(env["GPUSHARE_MEMORY_MIB"], "1500");
        assert!(!env.contains_key("ALIYUN_COM_GPU_MEM_IDX"), "{env:?}");
    }

    world.apply(&pod("one-too-many", gpushare(549)));
    let event = world.wait_event("one-too-many", "gpushare:");
    assert!(event.contains("the most is 548"), "{event}");
    world.runs(&pod("just-right", gpushare(548)));
}
