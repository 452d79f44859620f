//! `cargo xtask packing`: how full the policies fill the clusters of the published traces, compared with the targets.
//!
//! The numbers come from the program that users run, `kubectl gpushare simulate`, not from a separate library. The
//! traces are not ours to keep, so CI does not have them and uses the synthetic trace in the repository.

mod runs;
mod targets;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;

use runs::{Mode, POLICIES, Run};
use targets::{Check, TRACES};

use crate::cargo::optimised;

/// Replay the published traces with every policy and check the targets
///
/// DIR has the traces of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), as
/// openb_node_list_gpu_node.csv, openb_pod_list_VARIANT.csv and arrivals/VARIANT.tsv. Builds the plugin
/// optimised and replays five variants with five policies, three times each: filled once, and with pods
/// that leave at two loads. Takes about four minutes on two idle cores. Fails if a target is missed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory of the traces
    #[arg(long, value_name = "DIR")]
    trace: PathBuf,
    /// Which arrivals
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [42, 43, 44])]
    seeds: Vec<u64>,
    /// How to print the results
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// Two tables for people
    Text,
    /// An object for programs, with the fields `runs` and `checks`
    Json,
}

#[derive(Serialize)]
struct Results<'a> {
    runs: &'a [Run],
    checks: &'a [Check],
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        !arguments.seeds.is_empty(),
        "no seed: give --seeds at least one"
    );
    let folder = find(&arguments.trace)?;
    let program = optimised("kubectl-gpushare")?;
    let runs = runs::all(&program, &folder, &arguments.seeds)?;
    let checks = targets::check(&runs);
    match arguments.output {
        Output::Text => println!("{}\n{}", means(&runs), table(&checks)),
        Output::Json => {
            let results = Results {
                runs: &runs,
                checks: &checks,
            };
            println!("{}", serde_json::to_string_pretty(&results)?);
        }
    }
    let missed: Vec<&str> = checks
        .iter()
        .filter(|check| !check.holds)
        .map(|check| check.name.as_str())
        .collect();
    if !missed.is_empty() {
        bail!("missed: {}", missed.join("; "));
    }
    Ok(())
}

/// The directory, if it has every file that will be read. Absolute, because programs start in other directories.
fn find(folder: &Path) -> Result<PathBuf> {
    let mut files = vec![runs::nodes(folder)];
    for trace in &TRACES {
        files.extend([
            runs::pods(folder, trace.name),
            runs::arrivals(folder, trace.name),
        ]);
    }
    if let Some(missing) = files.iter().find(|file| !file.is_file()) {
        bail!(
            "{} is missing: --trace takes the directory of the published traces",
            missing.display()
        );
    }
    folder
        .canonicalize()
        .with_context(|| format!("cannot find {}", folder.display()))
}

/// The mean over seeds of each policy on each trace, in percent of the cluster.
fn means(runs: &[Run]) -> String {
    let mut lines = Vec::new();
    for mode in Mode::ALL {
        let traces = TRACES.iter().map(|trace| trace.name).chain(["mean"]);
        let headings: Vec<String> = traces.map(|name| format!("{name:>10}")).collect();
        lines.push(format!("{:12} {}", mode.to_string(), headings.join(" ")));
        for policy in POLICIES {
            let mut means = TRACES
                .map(|trace| targets::mean(runs, trace.name, policy, mode))
                .to_vec();
            means.push(targets::average(&means));
            let values: Vec<String> = means.iter().map(|mean| format!("{mean:10.2}")).collect();
            lines.push(format!("  {policy:10} {}", values.join(" ")));
        }
        lines.push(String::new());
    }
    lines.join("\n")
}

fn table(checks: &[Check]) -> String {
    let width = checks
        .iter()
        .map(|check| check.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut lines = vec![format!(
        "{:width$} {:>8} {:>8} {:>7}",
        "target", "value", "asked", "ratio"
    )];
    lines.extend(checks.iter().map(|check| {
        let Check {
            name,
            value,
            asked,
            ratio,
            holds,
        } = check;
        let verdict = if *holds { "ok" } else { "MISSED" };
        format!("{name:width$} {value:8.3} {asked:8.3} {ratio:7.4} {verdict}")
    }));
    lines.join("\n")
}
