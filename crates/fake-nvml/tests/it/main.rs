//! The fake library seen by real NVML clients.

mod clients;
mod events;
mod failures;
mod listing;
