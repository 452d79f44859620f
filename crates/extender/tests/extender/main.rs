//! The extender through its router, as kube-scheduler uses it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

mod api;
mod asked;
mod bad_input;
mod binds;
mod bodies;
mod chaos;
mod cluster;
mod devices;
mod doubts;
mod edits;
mod explain;
mod hostile;
mod kubernetes;
mod late;
mod leaders;
mod notices;
mod preemption;
mod replicas;
mod samples;
mod verbs;
mod waking;
mod watches;
