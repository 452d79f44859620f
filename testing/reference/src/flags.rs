//! Flags and environment variables of the programs, from their own command lines.

use std::fmt::Write as _;

use clap::{Arg, Args, Command, CommandFactory};
use gpushare_sandbox::Options;

use crate::begin;
use crate::command_line::{about, arguments, default, entry, meaning};
use crate::table::{code, table};

const ABOUT: &str = "Where a variable is named, it can be set instead; the flag wins. `--help` of each program says the same. The kubectl plugins are in \
    [cli.md](../cli.md).";

pub(crate) fn page() -> String {
    let mut text = begin("Flags", ABOUT);
    let control = gpushare_control::cli::Cli::command();
    let node = gpushare_node::config::Cli::command();
    let sandbox = Options::augment_args(Command::new("gpushare-sandbox"))
        .about("A whole cluster in one process to try gpushare in");
    let roles = control.get_subcommands().map(|role| {
        let name = format!("{} {}", control.get_name(), role.get_name());
        (name, role)
    });
    let alone = [&node, &sandbox].map(|program| (program.get_name().to_owned(), program));
    let programs: Vec<(String, &Command)> = roles.chain(alone).collect();
    text.push('\n');
    for (name, program) in &programs {
        text.push_str(&entry(name, &about(program)));
    }
    for (name, program) in &programs {
        let _ = write!(text, "\n## {name}\n\n{}.\n", about(program));
        text.push_str(&flags(program));
    }
    text.push_str(&exit_codes(&control));
    text
}

fn flags(program: &Command) -> String {
    let rows: Vec<[String; 4]> = arguments(program).map(row).collect();
    table(["flag", "variable", "default", "meaning"], &rows)
}

fn row(flag: &Arg) -> [String; 4] {
    let name = format!("--{}", flag.get_long().unwrap_or_default());
    let variable = flag.get_env().unwrap_or_default().to_string_lossy();
    let default = default(flag).unwrap_or_default();
    [code(&name), code(&variable), code(&default), meaning(flag)]
}

/// The exit codes of the programs; clap defines the one for a wrong command line.
fn exit_codes(program: &Command) -> String {
    let wrong = program
        .clone()
        .try_get_matches_from(["program", "--no-such-flag"])
        .err()
        .map_or(0, |error| error.exit_code());
    let rows = [
        ("0", "success; a program that keeps running was asked to end, and ended"),
        ("1", "it failed, and says why on standard error. `kubectl gpushare doctor`: or a check failed. `gpushare-sandbox --exit-after-story`: or something in the story did not happen"),
    ]
    .map(|(number, meaning)| [code(number), meaning.to_owned()]);
    let mut rows = rows.to_vec();
    rows.push([
        code(&wrong.to_string()),
        "the command line is not valid; nothing was done".to_owned(),
    ]);
    format!(
        "\n## Exit codes\n\nOf every program, the kubectl plugins included.\n{}",
        table(["code", "meaning"], &rows)
    )
}
