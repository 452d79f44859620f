//! Flags that several programs share.

mod lease;
mod reading;

pub use lease::{LeaseArgs, LeaseArgsError};
pub use reading::{ReadingArgs, ReadingError};
