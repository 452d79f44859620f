//! Pods in the predecessor's dialect fill one card before they use the next.

use e2e::manifest::{aliyun, stateful_set};
use e2e::{Kubectl, World};

#[test]
fn three_replicas_share_one_card_of_two_and_see_exactly_that_card() {
    let world = World::start(&[16384, 16384]);
    world.apply(&stateful_set("binpack", 3, aliyun(3)));
    let names = ["binpack-0", "binpack-1", "binpack-2"];
    let cards: Vec<_> = names.map(|name| world.card_of(name)).into();
    assert!(cards.windows(2).all(|pair| pair[0] == pair[1]), "{cards:?}");
    for name in names {
        let env = world.env_inside(name);
        assert_eq!(env["ALIYUN_COM_GPU_MEM_CONTAINER"], "3");
        assert_eq!(env["ALIYUN_COM_GPU_MEM_POD"], "3");
        assert_eq!(env["ALIYUN_COM_GPU_MEM_DEV"], "16");
        assert_eq!(env["GPUSHARE_MEMORY_MIB"], "3072");
    }
    let mut booked = world.booked();
    booked.sort_unstable();
    assert_eq!(booked, [0, 9]);
}
