//! What the extender knows, as a synchronous library: bookings, pods and nodes, who waits for room, and who is to make
//! room for whom.
//!
//! There is no clock, network or task here. The extender brings the time, holds the lock and talks to the API server.

mod books;
mod pod_event;
pub mod reasons;

pub use books::{
    Bells, Books, Contention, Finding, Followup, KnownPod, Moment, NewPreemption, NodeFacts,
    NodeSet, Now, Outcome, Preemptor, Proposal, Reason, RefusedPod, Reservation, StaleProposal,
    Step, Survey, Terms, WaitingPod,
};
pub use pod_event::PodEvent;
