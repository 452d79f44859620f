//! Rows and the table they make.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// For rows whose missed limits the document explains.
pub(crate) const PROFILE: &str = "docs/benchmarks.md shows where the time goes";

/// A figure's unit, which determines how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Microseconds,
    PerSecond,
    Megabytes,
    Instructions,
}

impl Unit {
    fn write(self, value: f64) -> String {
        match self {
            Self::Microseconds if value >= 1e6 => format!("{:.2} s", value / 1e6),
            Self::Microseconds if value >= 1e4 => format!("{:.1} ms", value / 1e3),
            Self::Microseconds if value >= 1e3 => format!("{:.2} ms", value / 1e3),
            Self::Microseconds => format!("{value:.0} us"),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Megabytes => format!("{value:.0} MB"),
            Self::Instructions if value >= 1e6 => format!("{:.2} M", value / 1e6),
            Self::Instructions => format!("{:.1} k", value / 1e3),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Microseconds => "us",
            Self::PerSecond => "1/s",
            Self::Megabytes => "MB",
            Self::Instructions => "instructions",
        }
    }
}

/// The limit that a figure must keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    RatioAtMost(f64),
    RatioAtLeast(f64),
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn write(self, unit: Unit) -> String {
        match self {
            Self::RatioAtMost(limit) => format!("<= {limit} x"),
            Self::RatioAtLeast(limit) => format!(">= {limit} x"),
            Self::AtMost(limit) => format!("<= {}", unit.write(limit)),
            Self::AtLeast(limit) => format!(">= {}", unit.write(limit)),
        }
    }

    /// Whether the limit is kept. A ratio that could not be measured keeps no limit.
    fn kept(self, value: f64, ratio: Option<f64>) -> bool {
        match self {
            Self::RatioAtMost(limit) => ratio.is_some_and(|ratio| ratio <= limit),
            Self::RatioAtLeast(limit) => ratio.is_some_and(|ratio| ratio >= limit),
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    name: String,
    figure: Option<Figure>,
    limits: Vec<Limit>,
    notes: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Figure {
    value: f64,
    floor: Option<f64>,
    unit: Unit,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self {
            name: name.into(),
            figure: Some(Figure {
                value,
                floor: None,
                unit,
            }),
            limits: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// A time beside the minimum that the same work takes.
    pub(crate) fn time(name: impl Into<String>, value: Duration, floor: Duration) -> Self {
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        Self::new(name, micros(value), Unit::Microseconds).floor(micros(floor))
    }

    pub(crate) fn not_measured(name: impl Into<String>, error: &anyhow::Error) -> Self {
        Self {
            name: name.into(),
            figure: None,
            limits: Vec::new(),
            notes: vec![format!("{error:#}")],
        }
    }

    pub(crate) fn floor(mut self, floor: f64) -> Self {
        if let Some(figure) = &mut self.figure {
            figure.floor = Some(floor);
        }
        self
    }

    pub(crate) fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// A note below the table, whatever the verdict.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// A note below the table if a limit is missed: where the time goes.
    pub(crate) fn excuse(mut self, excuse: impl Into<String>) -> Self {
        if self.verdict() == Verdict::Miss {
            self.notes.push(excuse.into());
        }
        self
    }

    fn ratio(&self) -> Option<f64> {
        let Figure { value, floor, .. } = self.figure?;
        floor
            .filter(|floor| *floor > 0.0)
            .map(|floor| value / floor)
    }

    fn verdict(&self) -> Verdict {
        let Some(figure) = self.figure else {
            return Verdict::NotMeasured;
        };
        let ratio = self.ratio();
        if self.limits.is_empty() {
            Verdict::NoLimit
        } else if self
            .limits
            .iter()
            .all(|limit| limit.kept(figure.value, ratio))
        {
            Verdict::Kept
        } else {
            Verdict::Miss
        }
    }

    fn cells(&self) -> [String; 6] {
        let write = |value: Option<f64>| match (self.figure, value) {
            (Some(figure), Some(value)) => figure.unit.write(value),
            _ => "-".to_owned(),
        };
        let limits = self.figure.map(|figure| {
            let limits = self.limits.iter().map(|limit| limit.write(figure.unit));
            limits.collect::<Vec<_>>().join(", ")
        });
        [
            self.name.clone(),
            write(self.figure.map(|figure| figure.value)),
            write(self.figure.and_then(|figure| figure.floor)),
            self.ratio()
                .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            limits
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "-".to_owned()),
            self.verdict().name().to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let unit = self.figure.map(|figure| figure.unit);
        let limits = self.limits.iter().zip(std::iter::repeat(unit));
        json!({
            "name": self.name,
            "value": self.figure.map(|figure| figure.value),
            "floor": self.figure.and_then(|figure| figure.floor),
            "ratio": self.ratio(),
            "unit": unit.map(Unit::name),
            "limits": limits
                .filter_map(|(limit, unit)| Some(limit.write(unit?)))
                .collect::<Vec<_>>(),
            "verdict": self.verdict().name(),
            "notes": self.notes,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Kept,
    Miss,
    NoLimit,
    NotMeasured,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Kept => "ok",
            Self::Miss => "MISS",
            Self::NoLimit => "-",
            Self::NotMeasured => "NOT MEASURED",
        }
    }
}

/// All rows of a run, and how busy the machine was.
#[derive(Debug)]
pub(crate) struct Report {
    rows: Vec<Row>,
    began: Instant,
    load_at_begin: String,
}

impl Report {
    pub(crate) fn begin() -> Self {
        Self {
            rows: Vec::new(),
            began: Instant::now(),
            load_at_begin: load(),
        }
    }

    pub(crate) fn extend(&mut self, rows: Vec<Row>) {
        self.rows.extend(rows);
    }

    /// Whether everything was measured and keeps its limits.
    pub(crate) fn good(&self) -> bool {
        let bad = [Verdict::Miss, Verdict::NotMeasured];
        !self.rows.iter().any(|row| bad.contains(&row.verdict()))
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "cores": cores(),
            "load_at_begin": self.load_at_begin,
            "seconds": self.began.elapsed().as_secs_f64(),
            "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["name", "value", "floor", "ratio", "limit", "verdict"].map(str::to_owned);
        let lines: Vec<[String; 6]> = std::iter::once(head)
            .chain(self.rows.iter().map(Row::cells))
            .collect();
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..6).map(width).collect();
        for line in &lines {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{cell:width$}")?,
                    5 => write!(f, "  {cell}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        for row in &self.rows {
            for note in &row.notes {
                writeln!(f, "{}: {note}", row.name)?;
            }
        }
        let count = |verdict| {
            self.rows
                .iter()
                .filter(|row| row.verdict() == verdict)
                .count()
        };
        writeln!(
            f,
            "{} kept, {} missed, {} not measured; {:.0} s on {} cores, load average {} before",
            count(Verdict::Kept),
            count(Verdict::Miss),
            count(Verdict::NotMeasured),
            self.began.elapsed().as_secs_f64(),
            cores(),
            self.load_at_begin,
        )
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The load average of the last minute, as the kernel writes it.
fn load() -> String {
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads.split(' ').next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64, floor: f64) -> Row {
        Row::new("filter", value, Unit::Microseconds).floor(floor)
    }

    #[test]
    fn a_figure_within_every_limit_is_kept_and_past_one_it_is_a_miss() {
        let limits = |row: Row| {
            row.limit(Limit::RatioAtLeast(0.9))
                .limit(Limit::AtLeast(1000.0))
        };
        assert_eq!(limits(row(1800.0, 2000.0)).verdict(), Verdict::Kept);
        assert_eq!(limits(row(900.0, 1000.0)).verdict(), Verdict::Miss);
        assert_eq!(limits(row(1700.0, 2000.0)).verdict(), Verdict::Miss);
    }

    #[test]
    fn a_ratio_without_a_floor_keeps_no_limit() {
        let row = Row::new("filter", 1.0, Unit::Microseconds).limit(Limit::RatioAtMost(2.0));
        assert_eq!(row.verdict(), Verdict::Miss);
    }

    #[test]
    fn a_miss_or_a_figure_that_is_missing_makes_the_report_bad() {
        let mut report = Report::begin();
        report.extend(vec![row(1.0, 1.0).limit(Limit::RatioAtMost(2.0))]);
        assert!(report.good());
        report.extend(vec![Row::not_measured("binds", &anyhow::anyhow!("no API"))]);
        assert!(!report.good());
        let table = report.to_string();
        assert!(table.contains("NOT MEASURED"), "{table}");
        assert!(table.contains("binds: no API"), "{table}");
        assert!(
            table.contains("1 kept, 0 missed, 1 not measured"),
            "{table}"
        );
    }

    #[test]
    fn an_excuse_is_said_only_for_a_miss() {
        let said = |row: Row| row.limit(Limit::RatioAtMost(2.0)).excuse("slow").notes;
        assert!(said(row(1.0, 1.0)).is_empty());
        assert_eq!(said(row(3.0, 1.0)), ["slow"]);
    }

    #[test]
    fn times_are_written_with_the_digits_that_matter() {
        let written = [612.4, 1_925.0, 31_415.0, 2_500_000.0];
        let written = written.map(|micros| Unit::Microseconds.write(micros));
        assert_eq!(written, ["612 us", "1.93 ms", "31.4 ms", "2.50 s"]);
    }
}
