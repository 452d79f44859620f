//! A program's command line, rendered as cells and lines of Markdown.

use std::fmt::Write as _;

use clap::builder::PossibleValue;
use clap::{Arg, Command};

pub(crate) fn about(command: &Command) -> String {
    let about = command.get_about();
    about.map(ToString::to_string).unwrap_or_default()
}

/// A line of a list of contents, with a link to the heading of this name.
pub(crate) fn entry(name: &str, about: &str) -> String {
    let anchor = name.replace(' ', "-");
    format!("- [`{name}`](#{anchor}): {about}\n")
}

/// Flags and positional arguments, without those of every program.
pub(crate) fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let arguments = command.get_arguments();
    arguments.filter(|argument| {
        let everywhere = ["help", "version"].contains(&argument.get_id().as_str());
        !argument.is_hide_set() && !everywhere
    })
}

/// The help, and the values that can be chosen.
pub(crate) fn meaning(argument: &Arg) -> String {
    let help = argument.get_help();
    let mut text = help.map(ToString::to_string).unwrap_or_default();
    let values = argument.get_possible_values();
    let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
    if takes_value(argument) && !names.is_empty() && names != ["true", "false"] {
        let _ = write!(text, ": {}", names.join(", "));
    }
    text
}

/// The value that an argument has if it is not given.
pub(crate) fn default(argument: &Arg) -> Option<String> {
    let value = argument.get_default_values().first()?;
    takes_value(argument).then(|| value.to_string_lossy().into_owned())
}

pub(crate) fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}
