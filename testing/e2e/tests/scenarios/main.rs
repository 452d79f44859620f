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
