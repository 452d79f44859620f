//! Completion in the form that kubectl expects of plugins: one candidate per line with its description, and a last line
//! `:N` that tells the shell what it may add.
//!
//! The arguments are the words of the command line; the last one is what has been typed so far. If the cluster does not
//! answer in time, its names are silently left out, because an error would disturb the user's typing.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::Result;
use clap::{Arg, Command, CommandFactory, Parser};
use gpushare_kube::gpu_budget::GpuBudget;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

use crate::connection::Connection;
use crate::gpushare::Arguments;

/// Tells the shell not to offer files.
const NO_FILES: u8 = 4;
/// Lets the shell complete file names.
const FILES: u8 = 0;
const PATIENCE: Duration = Duration::from_secs(2);
const MOST: u32 = 500;

/// What can be typed at a position of the command line.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Words(Vec<(String, String)>),
    Files,
    Pods,
    Nodes,
    Namespaces,
    Budgets,
    Nothing,
}

/// The flags of any command by which the cluster is chosen.
#[derive(Debug, Parser)]
struct Cluster {
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn answer(words: &[String]) -> String {
    let (typed, before) = words
        .split_last()
        .map_or(("", words), |(last, before)| (last.as_str(), before));
    let wanted = wanted(&Arguments::command(), before, typed);
    let (candidates, directive) = match wanted {
        Wanted::Words(words) => (words, NO_FILES),
        Wanted::Files => (Vec::new(), FILES),
        Wanted::Nothing => (Vec::new(), NO_FILES),
        cluster => (from_cluster(&cluster, before).unwrap_or_default(), NO_FILES),
    };
    let mut lines: Vec<String> = candidates
        .into_iter()
        .filter(|(word, _)| word.starts_with(typed))
        .map(|(word, about)| match about.as_str() {
            "" => word,
            about => format!("{word}\t{about}"),
        })
        .collect();
    lines.push(format!(":{directive}"));
    lines.join("\n")
}

fn wanted(root: &Command, before: &[String], typed: &str) -> Wanted {
    let mut command = root;
    let mut open: Option<&Arg> = None;
    for word in before {
        if open.take().is_some() {
            continue;
        }
        if let Some(flag) = flag(command, word) {
            let has_value = flag.get_action().takes_values() && !word.contains('=');
            open = has_value.then_some(flag);
        } else if let Some(next) = command.find_subcommand(word) {
            command = next;
        }
    }
    if let Some(flag) = open {
        return value(flag);
    }
    if typed.starts_with('-') {
        return Wanted::Words(flags(command));
    }
    if command.has_subcommands() {
        let visible = command.get_subcommands().filter(|next| !next.is_hide_set());
        return Wanted::Words(
            visible
                .map(|next| (next.get_name().to_owned(), about(next.get_about())))
                .collect(),
        );
    }
    command
        .get_positionals()
        .next()
        .map_or(Wanted::Nothing, value)
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or(word);
    command.get_arguments().find(|argument| {
        let long = argument
            .get_long()
            .is_some_and(|long| name.strip_prefix("--") == Some(long));
        let short = argument
            .get_short()
            .is_some_and(|short| name == format!("-{short}"));
        long || short
    })
}

fn flags(command: &Command) -> Vec<(String, String)> {
    let flags = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    flags
        .filter_map(|argument| {
            Some((
                format!("--{}", argument.get_long()?),
                about(argument.get_help()),
            ))
        })
        .collect()
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

fn value(argument: &Arg) -> Wanted {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let visible = possible.iter().filter(|value| !value.is_hide_set());
        return Wanted::Words(
            visible
                .map(|value| (value.get_name().to_owned(), about(value.get_help())))
                .collect(),
        );
    }
    let placeholder = argument.get_value_names().unwrap_or_default().first();
    let placeholder = placeholder.map_or("", |name| name.as_str());
    match (argument.get_id().as_str(), placeholder) {
        (_, "POD") => Wanted::Pods,
        (_, "NODE") => Wanted::Nodes,
        (_, "NAMESPACE") | ("namespace" | "system_namespace", _) => Wanted::Namespaces,
        ("budget", _) => Wanted::Budgets,
        (_, "FILE" | "YAML" | "CSV" | "TSV" | "DIR") => Wanted::Files,
        _ => Wanted::Nothing,
    }
}

fn from_cluster(wanted: &Wanted, before: &[String]) -> Option<Vec<(String, String)>> {
    let program = std::iter::once("complete");
    let chosen = Cluster::try_parse_from(program.chain(choosing(before))).ok()?;
    let names = crate::connection::wait_for(async {
        let found = tokio::time::timeout(PATIENCE, names(wanted, &chosen)).await;
        found.unwrap_or_else(|_late| Ok(Vec::new()))
    });
    let names = names.ok()?;
    Some(
        names
            .into_iter()
            .map(|name| (name, String::new()))
            .collect(),
    )
}

/// The words before the cursor that choose the cluster and the namespace.
fn choosing(before: &[String]) -> Vec<&str> {
    let known = Cluster::command();
    let mut kept = Vec::new();
    let mut words = before.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if flag(&known, word).is_none() {
            continue;
        }
        if word.contains('=') {
            kept.push(word);
        } else if let Some(value) = words.next() {
            kept.extend([word, value]);
        }
    }
    kept
}

async fn names(wanted: &Wanted, chosen: &Cluster) -> Result<Vec<String>> {
    let client: Client = chosen.connection.client().await?;
    match wanted {
        Wanted::Pods => {
            let default = client.default_namespace().to_owned();
            let namespace = chosen.namespace.as_deref().unwrap_or(&default);
            listed(Api::<Pod>::namespaced(client, namespace)).await
        }
        Wanted::Nodes => listed(Api::<Node>::all(client)).await,
        Wanted::Budgets => listed(Api::<GpuBudget>::all(client)).await,
        _ => listed(Api::<Namespace>::all(client)).await,
    }
}

async fn listed<K>(api: Api<K>) -> Result<Vec<String>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = ListParams::default().limit(MOST);
    let names = api.list_metadata(&params).await?.items.into_iter();
    Ok(names.filter_map(|item| item.metadata.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> Wanted {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (typed, before) = words.split_last().unwrap();
        wanted(&Arguments::command(), before, typed)
    }

    fn words(line: &str) -> Vec<String> {
        match at(line) {
            Wanted::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn commands_come_first_and_hidden_ones_never() {
        let found = words("");
        for command in ["cards", "why", "fit", "doctor", "simulate", "version"] {
            assert!(found.contains(&command.to_owned()), "{found:?}");
        }
        assert!(!found.contains(&"docs".to_owned()), "{found:?}");
    }

    #[test]
    fn a_command_offers_its_flags_and_a_flag_its_values() {
        assert!(words("why --").contains(&"--namespace".to_owned()));
        assert_eq!(words("why -o "), ["text", "wide", "json"]);
        assert_eq!(words("cards --output "), ["text", "wide", "json", "yaml"]);
    }

    #[test]
    fn names_of_the_cluster_are_offered_where_they_belong() {
        assert_eq!(at("why "), Wanted::Pods);
        assert_eq!(at("why -n team tr"), Wanted::Pods);
        assert_eq!(at("why -n "), Wanted::Namespaces);
        assert_eq!(at("cards -o wide "), Wanted::Nodes);
        assert_eq!(at("why --kubeconfig "), Wanted::Files);
        assert_eq!(at("why -f "), Wanted::Files);
        assert_eq!(at("budget show "), Wanted::Namespaces);
        assert_eq!(at("budget show --budget "), Wanted::Budgets);
        assert_eq!(at("budget grant "), Wanted::Budgets);
    }

    #[test]
    fn the_answer_ends_with_a_directive() {
        let words = ["version".to_owned(), "-o".to_owned(), "j".to_owned()];
        let answer = answer(&words);
        assert!(
            answer.starts_with("json\t") && answer.ends_with("\n:4"),
            "{answer}"
        );
        assert_eq!(
            super::answer(&["fit".to_owned(), "-f".to_owned(), String::new()]),
            ":0"
        );
    }
}
