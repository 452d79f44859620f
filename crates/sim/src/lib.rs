//! The simulator: pods of a trace arrive one by one (and leave again, if requested) and are placed by
//! the same code that serves a cluster. Every decision is checked by an [audit] that shares no code
//! with what it checks. Traces come from files; nothing here talks to a cluster.

pub mod audit;
pub mod churn;
pub mod cli;
pub mod fill;
pub mod more;
pub mod progress;
pub mod random;
pub mod report;
pub mod stage;
pub mod synth;
pub mod table;
pub mod trace;
pub mod typical;
