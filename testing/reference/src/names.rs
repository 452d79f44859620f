//! Names that others rely on, from the one file that has them. The comment of a name is its description.

use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};

use crate::begin;
use crate::table::{code, table};

const SOURCE: &str = include_str!("../../../crates/core/src/names.rs");

const ABOUT: &str = "Resources, annotations, labels, variables, Events and conditions. How to use them is in [requests.md](../requests.md) and \
    [budgets.md](../budgets.md).";

/// How a comment begins, and the section for such names.
const KINDS: [(&str, &str); 13] = [
    ("Resource of a container", "Resources"),
    (
        "Pod annotation that users write",
        "Pod annotations that users write",
    ),
    (
        "Pod annotation that gpushare writes",
        "Pod annotations that gpushare writes",
    ),
    ("Node annotation that gpushare writes", "Node annotations"),
    (
        "Label, finalizer, gate",
        "Labels, finalizers, gates, audiences",
    ),
    ("Priority class", "Priority classes"),
    (
        "Variable of a container",
        "Variables of containers with cards",
    ),
    ("Event on a pod", "Events on pods"),
    ("Condition of a pod", "Conditions of pods"),
    ("Event on a GpuBudget", "Events on budgets"),
    ("Condition of a GpuBudget", "Conditions of budgets"),
    ("Reason of a condition", "Reasons of these conditions"),
    (
        "Annotation for predecessors' tools",
        "Annotations for predecessors' tools",
    ),
];

struct Name {
    kind: String,
    value: String,
    meaning: String,
}

pub(crate) fn page() -> Result<String> {
    let names = read(SOURCE)?;
    let mut text = begin("Names", ABOUT);
    for (kind, title) in KINDS {
        let of_this_kind = names.iter().filter(|name| name.kind == kind);
        let rows: Vec<[String; 2]> = of_this_kind
            .map(|name| [code(&name.value), name.meaning.clone()])
            .collect();
        ensure!(!rows.is_empty(), "no name is a {kind:?} any more");
        let _ = write!(text, "\n## {title}\n");
        text.push_str(&table(["name", "meaning"], &rows));
    }
    text.push_str(
        "\ngpushare writes these last ones on a bound pod and reads none of them. Those of Aliyun's whose names are in capitals, but for \
         `ALIYUN_COM_GPU_MEM_ASSIGNED` and `…_ASSUME_TIME`, are variables of the containers too.\n",
    );
    Ok(text)
}

/// The text constants with their comments. A constant without a comment, or of no known kind, is an error.
fn read(source: &str) -> Result<Vec<Name>> {
    let mut names = Vec::new();
    let mut comment = String::new();
    for line in source.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("/// ") {
            comment = format!("{comment} {more}");
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            let Some((_, value)) = rest.split_once(" = \"") else {
                bail!("cannot read {line:?}");
            };
            let Some((kind, meaning)) = comment.trim().split_once(": ") else {
                bail!("{line:?} has no comment of the form \"Kind: meaning\"");
            };
            ensure!(
                KINDS.iter().any(|(known, _)| *known == kind),
                "{line:?}: {kind:?} is no known kind of name"
            );
            names.push(Name {
                kind: kind.to_owned(),
                value: value.trim_end_matches("\";").to_owned(),
                meaning: meaning.to_owned(),
            });
            comment.clear();
        } else {
            comment.clear();
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_description_is_an_error() {
        let undescribed = "pub const A: &str = \"a\";";
        assert!(read(undescribed).is_err());
        assert!(read(&format!("/// Some thing: a.\n{undescribed}")).is_err());
        let described = format!("/// Priority class: of\n/// all.\n{undescribed}");
        let names = read(&described).unwrap();
        assert_eq!(names[0].value, "a");
        assert_eq!(names[0].meaning, "of all.");
    }
}
