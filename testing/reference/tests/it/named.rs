//! Commands, flags, metrics and names that documents mention exist.

use std::collections::BTreeSet;

use gpushare_core::names;

use crate::documents::{Document, documents, mentions, root};

/// Flags of other programs that the documents recommend.
const OF_OTHERS: [&str; 24] = [
    "--dry-run",
    "--admission-control-config-file",
    "--all-namespaces",
    "--bench",
    "--cert",
    "--clusterrole",
    "--duration",
    "--field-selector",
    "--for-documents",
    "--force",
    "--from-file",
    "--grace-period",
    "--key",
    "--list",
    "--memory-unit",
    "--minutes",
    "--reference",
    "--profile",
    "--release",
    "--screenshots",
    "--seeds",
    "--serviceaccount",
    "--subresource",
    "--trace",
];

fn page(name: &str) -> Document {
    documents()
        .into_iter()
        .find(|document| document.name == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

fn is_flag(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
}

fn flags_in(text: &str) -> BTreeSet<String> {
    let flags = mentions(text, "--", is_flag);
    flags
        .into_iter()
        .filter(|flag| flag.len() > 3 && flag.chars().nth(2).is_some_and(|c| c != '-'))
        .map(|flag| flag.trim_end_matches('-').to_owned())
        .collect()
}

/// Calls `look` for each line of each document that was written by hand.
fn lines(mut look: impl FnMut(&str, &str)) {
    for document in documents() {
        let generated =
            document.name.starts_with("docs/reference/") || document.name == "docs/cli.md";
        if !generated {
            for (number, line) in document.text.lines().enumerate() {
                look(&format!("{}:{}", document.name, number + 1), line);
            }
        }
    }
}

/// Checks that no line of these documents has anything unknown; `unknown` finds it in a line.
fn all_is_known(claim: &str, mut unknown: impl FnMut(&str) -> Vec<String>) {
    let mut found = Vec::new();
    lines(|place, line| {
        let here = unknown(line).into_iter();
        found.extend(here.map(|name| format!("{place}: {name}")));
    });
    assert!(found.is_empty(), "{claim}\n{}", found.join("\n"));
}

#[test]
fn every_flag_that_is_mentioned_exists() {
    let mut known = flags_in(&page("docs/reference/flags.md").text);
    known.extend(flags_in(&page("docs/cli.md").text));
    known.extend(OF_OTHERS.map(str::to_owned));
    all_is_known("no program has", |line| {
        flags_in(line).difference(&known).cloned().collect()
    });
}

#[test]
fn every_command_of_kubectl_gpushare_that_is_mentioned_exists() {
    let reference = page("docs/cli.md");
    let known = reference.anchors();
    let mut seen = 0;
    let is_command = |c: char| c.is_ascii_lowercase() || c == '-';
    all_is_known("there is no", |line| {
        let mentions = line.split("kubectl gpushare ").skip(1);
        let first_words = mentions.filter_map(|mention| mention.split(|c| !is_command(c)).next());
        let commands: Vec<&str> = first_words.filter(|word| !word.is_empty()).collect();
        seen += commands.len();
        let unknown = commands.into_iter();
        unknown
            .filter(|word| !known.iter().any(|command| command == word))
            .map(|word| format!("kubectl gpushare {word}"))
            .collect()
    });
    assert!(seen > 10, "only {seen} commands were found");
}

#[test]
fn every_metric_that_is_mentioned_exists() {
    let reference = page("docs/reference/metrics.md").text;
    let of = |text: &str| -> Vec<String> {
        let name = |c: char| c.is_ascii_lowercase() || c == '_';
        ["extender", "webhook", "timekeeper", "dashboard", "node"]
            .into_iter()
            .flat_map(|program| {
                let found = mentions(text, &format!("gpushare_{program}_"), name);
                found.into_iter().map(str::to_owned).collect::<Vec<_>>()
            })
            // A name that ends with `_` stands for all names that begin with it.
            .filter(|name| !name.ends_with('_'))
            .collect()
    };
    let known: BTreeSet<String> = of(&reference).into_iter().collect();
    assert!(known.len() > 30, "{known:?}");
    let is_known = |metric: &String| {
        let mut ends = ["_bucket", "_sum", "_count"].into_iter();
        let bare = ends.find_map(|end| metric.strip_suffix(end));
        known.contains(bare.unwrap_or(metric))
    };
    all_is_known("no program has", |line| {
        let metrics = of(line).into_iter();
        metrics.filter(|metric| !is_known(metric)).collect()
    });
}

#[test]
fn every_name_of_ours_that_is_mentioned_exists() {
    let reference = page("docs/reference/names.md").text;
    let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
    let of = |text: &str| -> BTreeSet<String> {
        let found = mentions(text, "gpushare.io/", name);
        found
            .into_iter()
            .map(|name| name.trim_end_matches(['.', '-']).to_owned())
            .filter(|name| name != "gpushare.io/")
            .collect()
    };
    let mut known = of(&reference);
    assert!(known.contains(names::GPU_MEM));
    // The group's version, the kind of our CDI names, and names in examples of devices other than GPUs.
    known.extend(
        [
            "v1alpha1",
            "slot",
            "cards.rdma",
            "rdma-models",
            "sandbox",
            "sandbox-cards",
        ]
        .map(|name| format!("gpushare.io/{name}")),
    );
    all_is_known("nobody knows", |line| {
        of(line).difference(&known).cloned().collect()
    });
}

#[test]
fn every_file_that_the_map_names_exists() {
    let map = page("ARCHITECTURE.md").text;
    let path = |c: char| c.is_ascii_alphanumeric() || "/_-.{},*".contains(c);
    let mut missing = Vec::new();
    let mut seen = 0;
    for start in ["crates/", "deploy/", "docs/", "testing/"] {
        for mention in mentions(&map, start, path) {
            for file in expand(mention.trim_end_matches(['.', ','])) {
                seen += 1;
                if !root().join(&file).exists() {
                    missing.push(file);
                }
            }
        }
    }
    assert!(missing.is_empty(), "there is no {}", missing.join(", "));
    assert!(seen > 60, "only {seen} files were found");
}

/// `a/{b,c}.rs` is two files.
fn expand(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (inside, after) = rest.split_once('}').unwrap_or((rest, ""));
    inside
        .split(',')
        .map(|one| format!("{before}{one}{after}"))
        .collect()
}
