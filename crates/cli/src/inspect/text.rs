//! The predecessor's two tables, column for column.

use std::fmt::Write as _;
use std::iter::repeat_n;

use super::usage::{Node, Usage};
use crate::tabs::align;

/// One line per node.
pub(super) fn summary(usage: &Usage) -> String {
    let Usage {
        unit,
        nodes,
        columns: cards,
        ..
    } = usage;
    let pending = nodes.iter().any(|node| node.pending.is_some());
    let mut text = String::from("NAME\tIPADDRESS\t");
    for card in 0..*cards {
        let _ = write!(text, "GPU{card}(Allocated/Total)\t");
    }
    if pending {
        text.push_str("PENDING(Allocated)\t");
    }
    let _ = writeln!(text, "GPU Memory({unit})");
    for node in nodes {
        let _ = write!(text, "{}\t{}\t", node.name, node.address);
        for card in 0..*cards {
            let (allocated, total) = node
                .cards
                .get(card)
                .map_or((0, 0), |card| (card.allocated, card.total));
            let _ = write!(text, "{allocated}/{total}\t");
        }
        if pending {
            let amount = node.pending.map(|amount| amount.to_string());
            let _ = write!(text, "{}\t", amount.unwrap_or_default());
        }
        let _ = writeln!(text, "{}/{}", node.allocated, node.total);
    }
    let mut aligned = align(&text);
    aligned.push_str(&rule(&aligned, 1));
    let in_cluster = in_cluster(usage);
    let _ = write!(
        aligned,
        "Allocated/Total GPU Memory In Cluster:\n{in_cluster}"
    );
    aligned
}

/// One table per node, with one line per pod.
pub(super) fn details(usage: &Usage) -> String {
    let mut text = String::new();
    for node in &usage.nodes {
        let Node { name, address, .. } = node;
        let head = align(&format!("NAME:\t{name}\nIPADDRESS:\t{address}\n"));
        let table = align(&table(node));
        let _ = write!(text, "\n{head}\n{table}{}", rule(&table, 0));
    }
    let in_cluster = in_cluster(usage);
    let _ = write!(
        text,
        "\n\nAllocated/Total GPU Memory In Cluster:  {in_cluster}"
    );
    text
}

fn table(node: &Node) -> String {
    let mut text = String::from("NAME\tNAMESPACE\t");
    for card in 0..node.cards.len() {
        let _ = write!(text, "GPU{card}(Allocated)\t");
    }
    if node.pending.is_some() {
        text.push_str("Pending(Allocated)\t");
    }
    text.push('\n');
    for pod in &node.pods {
        let _ = write!(text, "{}\t{}\t", pod.name, pod.namespace);
        for amount in &pod.cards {
            let _ = write!(text, "{amount}\t");
        }
        if node.pending.is_some() {
            let _ = write!(text, "{}\t", pod.pending);
        }
        text.push('\n');
    }
    let Node {
        allocated, total, ..
    } = node;
    let _ = writeln!(
        text,
        "Allocated :\t{allocated} ({}%)\t",
        percent(*allocated, *total)
    );
    // The predecessor prints this blank, and it changes the column's width if this cell is the widest.
    let _ = writeln!(text, "Total :\t{total} \t");
    text
}

/// A line of dashes as wide as the table, or an empty line if the table has no rows under its `heads`.
fn rule(table: &str, heads: usize) -> String {
    let widest = table.lines().map(|line| line.chars().count()).max();
    let has_rows = table.lines().count() > heads;
    let mut dashes: String = repeat_n('-', widest.filter(|_| has_rows).unwrap_or(0)).collect();
    dashes.push('\n');
    dashes
}

/// Uses the predecessor's arithmetic, whose rounding is visible: it prints 29 of 100 as 28%.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "both programs are to print the same number"
)]
fn percent(allocated: u64, total: u64) -> i64 {
    if total == 0 {
        return 0;
    }
    (allocated as f64 / total as f64 * 100.0) as i64
}

fn in_cluster(usage: &Usage) -> String {
    let Usage {
        allocated, total, ..
    } = usage;
    format!("{allocated}/{total} ({}%)", percent(*allocated, *total))
}
