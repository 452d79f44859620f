//! Flags that several programs share.

mod client;
mod lease;
mod reading;

pub use client::ClientArgs;
pub use lease::{LeaseArgs, LeaseArgsError};
pub use reading::{ReadingArgs, ReadingError};
