//! Metrics of the programs, from where they are registered.

use std::fmt::Write as _;

use gpushare_daemon::metrics::Description;

use crate::begin;
use crate::table::{code, table};

const ABOUT: &str = "Each program serves these at `/metrics`, as OpenMetrics; a counter or histogram with labels appears when it has something to \
    count. What to watch first is in [operations.md](../operations.md#watch). No label has a pod, a user or a namespace as its value.";

pub(crate) fn page() -> String {
    let mut text = begin("Metrics", ABOUT);
    for (program, described) in [
        ("gpushare-control extender", gpushare_extender::metrics()),
        ("gpushare-control webhook", gpushare_webhook::metrics()),
        (
            "gpushare-control timekeeper",
            gpushare_timekeeper::metrics(),
        ),
        ("gpushare-control dashboard", gpushare_dashboard::metrics()),
        ("gpushare-node", gpushare_node::metrics::metrics()),
    ] {
        let mut described = described.to_vec();
        described.sort_by(|one, other| one.name.cmp(&other.name));
        let rows: Vec<[String; 4]> = described.iter().map(row).collect();
        let _ = write!(text, "\n## {program}\n");
        text.push_str(&table(["name", "type", "labels", "meaning"], &rows));
    }
    text
}

fn row(metric: &Description) -> [String; 4] {
    let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
    [
        code(&metric.name),
        metric.kind.to_string(),
        labels.join(", "),
        metric.help.to_owned(),
    ]
}
