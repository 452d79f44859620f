//! The commands of the kubectl plugins.

use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::begin;
use crate::command_line::{about, arguments, default, entry, meaning, takes_value};
use crate::table::{code, table};

const ABOUT: &str = "\
`kubectl-gpushare` on the PATH is called as `kubectl gpushare`, and `kubectl-inspect-gpushare` as
`kubectl inspect gpushare`. Write flags after the command: `kubectl gpushare cards --context lab`. Every command only
reads, unless it says otherwise.

`cargo build --profile dist -p kubectl-gpushare` builds all of them; copy them to a directory on your PATH. With
`kubectl_complete-gpushare` beside them, kubectl completes commands, flags and names of the cluster. To install man
pages of every command:

```sh
kubectl gpushare docs man ~/.local/share/man/man1
man kubectl-gpushare-budget-grant
```
";

const INSPECT: &str = "kubectl inspect gpushare";

pub(crate) fn page() -> String {
    let [gpushare, inspect] = kubectl_gpushare::command_lines();
    let mut text = begin("The command line", ABOUT);
    for command in visible(&gpushare) {
        text.push_str(&entry(command.get_name(), &about(command)));
    }
    text.push_str(&entry(
        INSPECT,
        "the predecessor's plugin, by name and output",
    ));
    for command in visible(&gpushare) {
        section(&mut text, command.get_name(), command, 2);
    }
    section(&mut text, INSPECT, &inspect, 2);
    text
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let commands = command.get_subcommands();
    commands.filter(|command| !command.is_hide_set())
}

fn section(text: &mut String, title: &str, command: &Command, level: usize) {
    let heading = "#".repeat(level);
    let long = command.get_long_about().map(ToString::to_string);
    let about = long.unwrap_or_else(|| about(command));
    let _ = write!(text, "\n{heading} {title}\n\n{about}\n");
    let usage = command.clone().render_usage().to_string();
    block(text, usage.trim_start_matches("Usage: "));
    let rows: Vec<[String; 2]> = arguments(command).map(row).collect();
    if !rows.is_empty() {
        text.push_str(&table(["argument", "meaning"], &rows));
    }
    let examples = command.get_after_long_help().or(command.get_after_help());
    if let Some(examples) = examples {
        block(text, &examples.to_string());
    }
    for nested in visible(command) {
        section(text, nested.get_name(), nested, level + 1);
    }
}

fn block(text: &mut String, content: &str) {
    let _ = write!(text, "\n```text\n{}\n```\n", content.trim());
}

fn row(argument: &Arg) -> [String; 2] {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let mut name = flags.join(", ");
    if takes_value(argument) {
        let values = argument.get_value_names().unwrap_or_default();
        let value = values.first().map_or("", |value| value.as_str());
        name = format!("{name} {value}");
    }
    let mut meaning = meaning(argument);
    if let Some(default) = default(argument) {
        let _ = write!(meaning, " (default: {default})");
    }
    [code(name.trim()), meaning]
}
