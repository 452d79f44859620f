//! What the extender knows, as a synchronous library: bookings, pods and nodes, which pods wait for room, and which
//! pods must make room for others.
//!
//! ```text
//!   Books ──┬── Nodes         bookings and claims on cards, the policy's view of them, where room has appeared
//!           ├── Pods          the pods that ask for our devices
//!           ├── Attempts      binds whose outcome is not known yet
//!           ├── Reads         reads of single pods that are not answered yet
//!           ├── Lessons       the pods from which the policy has learned
//!           ├── Verdicts      answers for equal pods
//!           ├── Waiting       refused pods, and which of them to wake
//!           ├── Contenders    pods for which to look for victims next
//!           └── Preemptions   claims on room, and the next step of each
//! ```
//!
//! Each part owns its fields. A step that concerns several parts is a method of [`Books`], or takes as arguments the
//! parts that it may touch.
//!
//! There is no clock, network or task here: callers pass the time and hold the lock.

mod binds;
mod books;
mod contenders;
mod evidence;
mod lessons;
mod node_set;
mod nodes;
mod pod_event;
mod pods;
pub mod preemptions;
mod reads;
pub mod reasons;
mod verdicts;
mod waiting;

pub use binds::{Followup, Reservation};
pub use books::{Bells, Books};
pub use contenders::Contention;
pub use node_set::NodeSet;
pub use nodes::growth::Moment;
pub use nodes::{NodeFacts, Nodes};
pub use pod_event::PodEvent;
pub use pods::{KnownPod, Pods};
pub use reads::{Finding, Read};
pub use verdicts::Verdict;
pub use waiting::plan::{Outlook, Plan};
pub use waiting::{RefusedPod, Waiting};
