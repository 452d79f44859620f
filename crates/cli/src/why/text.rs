//! The answer for people: a paragraph, what would help, and on demand the nodes.

use std::fmt::Write as _;

use super::answer::Answer;
use crate::tabs::align;

/// Paragraphs are wrapped at this column.
const WIDTH: usize = 100;
/// How many nodes a line names.
const MOST_NAMES: usize = 4;

pub(super) fn paragraph(answer: &Answer, wide: bool) -> String {
    let mut text = wrapped(&answer.message, "", "");
    if !answer.help.is_empty() {
        text.push_str("\nWhat would help:\n");
        for help in &answer.help {
            let doubt = if help.certain {
                ""
            } else {
                " (may not be enough)"
            };
            text.push_str(&wrapped(&format!("{}{doubt}", help.text), "  - ", "    "));
            for command in help.steps.iter().filter_map(|step| step.command.as_ref()) {
                let _ = writeln!(text, "      {command}");
            }
        }
    }
    if answer.waits {
        let waiting = "Or wait: the pod is tried again by itself when a card has room.";
        let _ = write!(text, "\n{waiting}\n");
    }
    if wide {
        text.push('\n');
        text.push_str(&table(answer));
        if let Some(scheduler) = &answer.scheduler {
            text.push_str(&wrapped(
                &format!("kube-scheduler said last: {scheduler}"),
                "\n",
                "",
            ));
        }
    }
    for note in &answer.notes {
        text.push_str(&wrapped(note, "note: ", "      "));
    }
    text.trim_end().to_owned()
}

fn table(answer: &Answer) -> String {
    let mut rows = String::from("NODES\tREASON\tNAMES\n");
    for group in &answer.groups {
        let names = group.nodes.iter().take(MOST_NAMES).map(ToString::to_string);
        let mut names = names.collect::<Vec<_>>().join(",");
        if group.count > MOST_NAMES {
            let _ = write!(names, ",… {} more", group.count - MOST_NAMES);
        }
        let _ = writeln!(rows, "{}\t{}\t{names}", group.count, group.reason);
    }
    align(&rows)
}

fn wrapped(text: &str, first: &str, others: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            others.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_are_broken_between_words_and_indented() {
        let text = "word ".repeat(30);
        let lines = wrapped(&text, "  - ", "    ");
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(lines.lines().all(|line| line.chars().count() <= 100));
        assert!(
            lines.starts_with("  - word") && lines.contains("\n    word"),
            "{lines}"
        );
    }
}
