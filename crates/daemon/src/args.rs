//! Reading flags: what several programs need beside clap.

use std::time::Duration;

use clap::{Args, Command};

/// A duration such as `15s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<jiff::SignedDuration>()
        .map_err(|error| error.to_string())
        .and_then(|duration| Duration::try_from(duration).map_err(|error| error.to_string()))
}

/// Reads the flags of a program as the program does, for callers that do not have them on a command line.
pub fn read<'a, Flags: Args>(
    flags: impl IntoIterator<Item = &'a str>,
) -> Result<Flags, clap::Error> {
    let command = Flags::augment_args(Command::new("flags").no_binary_name(true));
    Flags::from_arg_matches(&command.try_get_matches_from(flags)?)
}
