//! The pure model of gpushare: cards, requests, placements, the ledger and the reasons for refusals.
//!
//! State in, decision out. Nothing here can block, read the clock, draw a random number or fail for a
//! reason outside its arguments; there are no Kubernetes types and no async. All code that talks to the
//! outside world is a thin layer around this crate. Only [`gpu`] knows that the devices are GPUs.

pub mod amounts;
pub mod card;
pub mod choice;
pub mod devices;
pub mod dialect;
pub mod explain;
pub mod gpu;
pub mod held;
pub mod host;
pub mod ids;
pub mod inventory;
pub mod journal;
pub mod lease;
pub mod ledger;
pub mod names;
pub mod placement;
pub mod preempt;
pub mod quantity;
pub mod record;
pub mod request;
pub mod room;
pub mod search;
pub mod steps;
pub mod validate;
pub mod why;

pub use amounts::{Amounts, Classes, DeviceClass};
pub use card::Card;
pub use held::HeldPod;
pub use host::Host;
pub use ids::{CardId, NodeName, PodUid};
pub use ledger::Ledger;
pub use placement::Placement;
pub use quantity::Quantity;
pub use record::Record;
pub use request::PodAsk;
pub use search::Search;
pub use steps::Steps;
pub use why::Why;
