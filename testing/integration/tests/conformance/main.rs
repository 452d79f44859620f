//! What this project relies on in the Kubernetes API, checked on whichever API server the suite runs on. The embedded
//! server may answer only as the real one does, so every test here must pass on both, unchanged.

mod apply;
mod bad_input;
mod binding;
mod create;
mod deletion;
mod discovery;
mod events;
mod eviction;
mod leases;
mod list;
mod patch;
mod status;
mod tables;
mod update;
mod watch;
