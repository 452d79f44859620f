//! The plugin as a user calls it.

use std::process::Output;

use assert_cmd::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .args(arguments)
        .output()
        .expect("the plugin starts")
}

fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("the plugin prints text")
}

#[test]
fn version_prints_a_line_for_people() {
    assert_eq!(
        stdout(&["version"]),
        format!("kubectl-gpushare {VERSION}\n")
    );
}

#[test]
fn version_prints_json_for_programs() {
    let printed = stdout(&["version", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(value, serde_json::json!({ "version": VERSION }));
}

#[test]
fn help_names_the_commands_as_kubectl_calls_them() {
    let help = stdout(&["--help"]);
    assert!(help.contains("Usage: kubectl gpushare <COMMAND>"), "{help}");
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for command in [
        "budget Show budgets of GPU time",
        "cards Show every card",
        "why Say why a pod waits",
        "fit Say how many more",
        "doctor Check an installation",
        "simulate Replay a trace",
        "version Print the version",
    ] {
        assert!(words.contains(command), "{command} in {help}");
    }
}

#[test]
fn an_unknown_command_fails_and_names_the_way_to_help() {
    let output = run(&["frobnicate"]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(
        complaint.contains("'frobnicate'") && complaint.contains("--help"),
        "{complaint}"
    );
}
