//! The plugin as a user calls it.

use assert_cmd::Command;

use crate::said::{assert_parts, object, stderr, stdout};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn plugin(arguments: &[&str]) -> Command {
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"));
    plugin.args(arguments);
    plugin
}

#[test]
fn version_prints_a_line_for_people() {
    let printed = stdout(&mut plugin(&["version"]));
    assert_eq!(printed, format!("kubectl-gpushare {VERSION}\n"));
}

#[test]
fn version_prints_json_for_programs() {
    let value = object(&mut plugin(&["version", "-o", "json"]), 0);
    assert_eq!(value, serde_json::json!({ "version": VERSION }));
}

#[test]
fn help_names_the_commands_as_kubectl_calls_them() {
    let help = stdout(&mut plugin(&["--help"]));
    assert_parts(&help, &["Usage: kubectl gpushare <COMMAND>"]);
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let commands = [
        "budget Show budgets of GPU time",
        "cards Show every card",
        "why Say why a pod waits",
        "fit Say how many more",
        "doctor Check an installation",
        "simulate Replay a trace",
        "version Print the version",
    ];
    assert_parts(&words, &commands);
}

#[test]
fn an_unknown_command_fails_and_names_the_way_to_help() {
    let complaint = stderr(&mut plugin(&["frobnicate"]), 2);
    assert_parts(&complaint, &["'frobnicate'", "--help"]);
}
