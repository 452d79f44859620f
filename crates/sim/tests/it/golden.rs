//! A small trace in the repository, and the result of every policy on it. A change here is a change of
//! placement: check that it is an improvement before accepting it.

use std::path::{Path, PathBuf};

use gpushare_packing::policy::{self, Policy};
use gpushare_sim::churn::{self, Demand, Load};
use gpushare_sim::progress::Progress;
use gpushare_sim::trace::Trace;
use gpushare_sim::{fill, synth};

const SEED: u64 = 7;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn trace() -> Trace {
    Trace::open(
        &data("nodes.csv"),
        &data("pods.csv"),
        Some(&data("arrivals.tsv")),
        SEED,
    )
    .unwrap()
}

#[test]
fn the_files_are_those_of_the_generator() {
    let made = synth::trace(48, 400, SEED);
    for (name, text) in [
        ("nodes.csv", synth::nodes_csv(&made)),
        ("pods.csv", synth::pods_csv(&made)),
        ("arrivals.tsv", synth::arrivals_tsv(&made.arrivals)),
    ] {
        let kept = std::fs::read_to_string(data(name)).unwrap();
        assert!(kept == text, "{name} differs from what synth makes");
    }
    assert_eq!(trace(), made);
}

#[test]
fn filling_the_cluster_gives_the_kept_numbers() {
    let trace = trace();
    let lines: Vec<String> = policy::ALL
        .iter()
        .map(|policy| {
            let report = fill::run(&trace, *policy, &Progress::hidden()).unwrap();
            format!(
                "{:9} at100 {:.2} at130 {:.2} dropped {}",
                policy.name,
                report.at100.unwrap(),
                report.at130.unwrap(),
                report.dropped
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn churn_gives_the_kept_numbers() {
    let trace = trace();
    let lines: Vec<String> = policy::ALL
        .iter()
        .map(|policy| format!("{:9} {}", policy.name, steady(&trace, *policy)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

fn steady(trace: &Trace, policy: Policy) -> String {
    let at = |load: i64| {
        let demand = Demand::of(trace);
        let report = churn::run(trace, &[demand], policy, Load(load), &Progress::hidden()).unwrap();
        let steady = report.steady[0];
        format!("{:.2} ({:.2} accepted)", steady.allocated, steady.accepted)
    };
    format!("0.9: {}  1.1: {}", at(900), at(1_100))
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let trace = trace();
    let run = || {
        let report = fill::run(&trace, policy::LEARNED, &Progress::hidden()).unwrap();
        (report.curve, report.fragments, report.dropped)
    };
    assert_eq!(run(), run());
}
