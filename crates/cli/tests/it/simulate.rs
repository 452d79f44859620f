//! `kubectl gpushare simulate` as a user calls it: files in, a report out.

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// The trace that the simulator's own tests keep.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sim/tests/data")
        .join(name)
}

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .arg("simulate")
        .args(arguments)
        .output()
        .expect("the plugin starts")
}

/// Replays the kept trace with further arguments.
fn replay(arguments: &[&str]) -> Output {
    let files = ["nodes.csv", "pods.csv", "arrivals.tsv"];
    let [nodes, pods, arrivals] = files.map(|file| data(file).display().to_string());
    let files = ["--nodes", &nodes, "--pods", &pods];
    let order = ["--arrivals", &arrivals, "--seed", "7"];
    simulate(&[&files[..], &order, arguments].concat())
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn json(arguments: &[&str]) -> Value {
    let mut all = vec!["-o", "json"];
    all.extend(arguments);
    serde_json::from_str(&printed(&replay(&all))).unwrap()
}

/// The error of a failed run. Also asserts that it printed nothing on standard output.
fn complaint(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_report_for_people_has_every_number_and_what_it_means() {
    let report = printed(&replay(&[]));
    let without_speed: Vec<&str> = report
        .lines()
        .filter(|line| !line.contains("decisions per second"))
        .collect();
    assert_eq!(report.lines().count(), without_speed.len() + 1, "{report}");
    insta::assert_snapshot!(without_speed.join("\n"));
}

#[test]
fn the_report_of_churn_for_people_has_the_steady_state() {
    let report = printed(&replay(&["--churn", "0.9", "--policy", "fgd"]));
    assert!(report.starts_with("fgd on 48 nodes"), "{report}");
    assert!(
        report.contains("steady state at a load of 90 %"),
        "{report}"
    );
}

#[test]
fn json_and_text_say_the_same() {
    let (report, text) = (json(&[]), printed(&replay(&[])));
    for name in ["at100", "at130"] {
        let line = format!("{name}      {:6.2} %", report[name].as_f64().unwrap());
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert_eq!(report["seed"], 7);
    assert!(report["decisions_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_policy_runs_by_its_name() {
    for policy in [
        "learned",
        "fgd",
        "binpack",
        "best-fit",
        "first-fit",
        "spread",
    ] {
        assert_eq!(json(&["--policy", policy])["policy"], policy);
    }
}

#[test]
fn a_wrong_field_is_named_with_file_line_and_column_and_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    let pods = folder.path().join("pods.csv");
    let header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec";
    std::fs::write(&pods, format!("{header}\na,1,1,1,500,\nb,1,1,1,1500,\n")).unwrap();
    let nodes = data("nodes.csv").display().to_string();
    let pods = pods.display().to_string();
    let output = simulate(&["--nodes", &nodes, "--pods", &pods]);
    assert_eq!(
        complaint(&output, 1),
        format!(
            "error: {pods}:3: column gpu_milli: expected a whole number from 1 to 1000, found \"1500\"\n"
        )
    );
}

#[test]
fn a_missing_file_and_a_missing_seed_are_named_with_the_way_out() {
    let nodes = data("nodes.csv").display().to_string();
    let output = simulate(&["--nodes", &nodes, "--pods", "no-such.csv"]);
    let text = complaint(&output, 1);
    assert!(
        text.starts_with("error: cannot read no-such.csv: check that the file exists"),
        "{text}"
    );
    let arrivals = data("arrivals.tsv").display().to_string();
    let pods = data("pods.csv").display().to_string();
    let files = ["--nodes", &nodes, "--pods", &pods, "--arrivals", &arrivals];
    let text = complaint(&simulate(&[&files[..], &["--seed", "8"]].concat()), 1);
    assert!(
        text.ends_with("arrivals.tsv:1: no line for seed 8: add one, or give --seed one of 7\n"),
        "{text}"
    );
}

#[test]
fn a_wrong_command_line_is_told_apart_from_a_wrong_file() {
    let text = complaint(&replay(&["--policy", "tetris"]), 2);
    assert!(text.contains("use one of learned, fgd, binpack"), "{text}");
    let text = complaint(&replay(&["--churn", "0"]), 2);
    assert!(text.contains("a number from 0.01 to 10"), "{text}");
    let text = complaint(&simulate(&[]), 2);
    assert!(text.contains("--nodes <CSV>"), "{text}");
}

#[test]
fn help_teaches_by_examples_that_work() {
    let output = simulate(&["--help"]);
    let help = printed(&output);
    let example = help
        .lines()
        .find(|line| line.trim().starts_with("kubectl gpushare simulate --nodes"))
        .expect("an example");
    let folder = tempfile::tempdir().unwrap();
    for file in ["nodes.csv", "pods.csv"] {
        std::fs::copy(data(file), folder.path().join(file)).unwrap();
    }
    let words = example.split_whitespace().skip(2);
    let run = Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .args(words)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(printed(&run).contains("at100"));
}

#[test]
fn a_cluster_without_from_cluster_is_a_mistake_and_not_ignored() {
    let file = data("nodes.csv");
    let file = file.to_str().unwrap();
    let files = ["--nodes", file, "--pods", file];
    let flags = ["--seed", "1", "--context", "c"];
    let text = complaint(&simulate(&[files, flags].concat()), 1);
    assert!(text.contains("need --from-cluster"), "{text}");
}
