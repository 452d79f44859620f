//! Generates shell completions and man pages from the description of the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory, Subcommand, ValueEnum};

use crate::gpushare::Arguments;
use crate::inspect::Arguments as Inspect;

const EXAMPLES: &str = "Examples:
  source <(kubectl gpushare completion bash)
  kubectl gpushare completion fish > ~/.config/fish/completions/kubectl-gpushare.fish

These complete `kubectl-gpushare`. For `kubectl gpushare` kubectl's own completion asks the program
kubectl_complete-gpushare, which also knows pods, nodes and namespaces: put it on the PATH beside this one.";

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completion {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// What the project's own documentation is made of.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Docs {
    /// Write a man page for each command into a directory
    Man {
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

pub(crate) fn completion(arguments: &Completion) -> Result<String> {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    let mut command = Arguments::command().bin_name("kubectl-gpushare");
    clap_complete::generate(shell, &mut command, "kubectl-gpushare", &mut script);
    String::from_utf8(script).context("the completion is no text")
}

pub(crate) fn run(docs: &Docs) -> Result<String> {
    let Docs::Man { directory } = docs;
    man(directory)
}

/// The command lines of `kubectl gpushare` and `kubectl inspect gpushare`, for documents about them.
pub fn command_lines() -> [Command; 2] {
    let gpushare = Arguments::command().disable_help_subcommand(true);
    [gpushare, Inspect::command()].map(|mut command| {
        command.build();
        command
    })
}

fn man(directory: &Path) -> Result<String> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let mut pages = Vec::new();
    for root in command_lines() {
        add_pages(&mut pages, root.get_name(), &root);
    }
    for (name, command) in &pages {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(command.clone()).title(name);
        man.render(&mut page).context("cannot make a man page")?;
        let file = directory.join(format!("{name}.1"));
        std::fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let count = pages.len();
    Ok(format!("{count} man pages in {}", directory.display()))
}

/// Adds the pages of the command and its subcommands, each under the name by which `man` finds it.
fn add_pages(pages: &mut Vec<(String, Command)>, name: &str, command: &Command) {
    pages.push((name.to_owned(), command.clone()));
    for nested in visible(command) {
        let name = format!("{name}-{}", nested.get_name());
        add_pages(pages, &name, nested);
    }
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a line's first command, up to a pipe or a redirection. The caller has removed the
    /// explanation that follows an example.
    fn words(line: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for (number, part) in line.split('\'').enumerate() {
            if number % 2 == 1 {
                words.push(part.to_owned());
                continue;
            }
            for word in part.split(' ') {
                words.push(word.to_owned());
            }
            // Splitting next to a quote leaves empty words.
            words.retain(|word| !word.is_empty());
        }
        let end = words
            .iter()
            .position(|word| ["|", ">", "<"].contains(&word.as_str()));
        words.truncate(end.unwrap_or(words.len()));
        words
    }

    fn examples(command: &Command, lines: &mut Vec<String>) {
        let text = command.get_after_long_help().or(command.get_after_help());
        let text = text.map(ToString::to_string).unwrap_or_default();
        // Join lines that are continued with a backslash.
        let parts: Vec<&str> = text.split("\\\n").map(str::trim).collect();
        let text = parts.join(" ");
        let mine = text.lines().map(str::trim);
        let mine = mine.filter(|line| line.starts_with("kubectl "));
        lines.extend(mine.map(|line| line.split("  ").next().unwrap_or(line).to_owned()));
        for nested in visible(command) {
            examples(nested, lines);
        }
    }

    #[test]
    fn every_example_is_a_command_line_that_is_understood() {
        let [gpushare, inspect] = command_lines();
        let mut lines = Vec::new();
        examples(&gpushare, &mut lines);
        assert!(lines.len() > 20, "{lines:?}");
        for line in &lines {
            let parsed = Arguments::command().try_get_matches_from(words(line).iter().skip(1));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
        let mut lines = Vec::new();
        examples(&inspect, &mut lines);
        assert!(!lines.is_empty());
        for line in &lines {
            let parsed = Inspect::command().try_get_matches_from(words(line).iter().skip(2));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
