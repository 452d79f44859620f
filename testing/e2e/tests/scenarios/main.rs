//! Scenarios on a real kube-apiserver, kube-scheduler, kubelet and containerd. Run by `cargo xtask e2e`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

mod bad_input;
mod binpack;
mod budget_rules;
mod card_not_node;
mod crash;
mod dialects;
mod edits;
mod end;
mod failover;
mod late;
mod manifests;
mod outliving;
mod packing;
mod past_the_books;
mod preemption;
mod quota;
mod race;
mod restarts;
mod rulebook;
mod shapes;
mod waking;

use e2e::manifest::{aliyun, pod};
use e2e::{Kubectl, World};

/// Ignores the request to end until [`let_go`].
const STUBBORN: &str = "trap 'while [ ! -e /tmp/let-go ]; do sleep 0.1; done; exit 0' TERM; while true; do sleep 0.2; done";

/// Lets a pod end that waits for this file.
fn let_go(world: &World, pod: &str) {
    world
        .ctl(&format!("exec {pod} -- touch /tmp/let-go"))
        .unwrap();
}

/// Takes half of each of two cards of 8 GiB: 8 GiB of the node are free, but no card has 8 GiB free.
fn fragment(world: &World) {
    // The filler fills the first card, so that the third pod goes to the other one.
    for name in ["first", "filler", "third"] {
        world.runs(&pod(name, aliyun(4)));
    }
    world.remove("filler");
    assert_eq!(world.booked(), [4, 4]);
}
