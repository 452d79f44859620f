//! `kubectl gpushare why` on a real scheduler. For each waiting pod of a table, the reason is right, and the pod can be
//! scheduled after any proposed change, carried out to the letter. Run by `cargo xtask e2e`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

mod carry_out;
mod cases;

use std::collections::BTreeSet;

use carry_out::Stage;
use e2e::Kubectl;
use e2e::paper::{Paper, PaperNode};
use gpushare_testkit::assert_contains;
use serde_json::Value;

/// The least number of cases in the table.
const AT_LEAST: usize = 20;

#[test]
fn every_proposed_change_lets_the_pod_be_scheduled() {
    let mut paper = Paper::start();
    let cases = cases::all();
    assert!(cases.len() >= AT_LEAST);
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
    let (mut carried_out, mut by_hand) = (0, 0);
    for case in &cases {
        let mut number = 0;
        loop {
            let stage = Stage::set(&paper, case);
            let answer = stage.ask();
            assert_eq!(answer["reason"], case.reason, "{}: {answer:#}", case.name);
            let message = answer["message"].as_str().unwrap();
            assert!(message.contains(case.says), "{}: {message}", case.name);
            let help = answer["help"].as_array().unwrap().clone();
            assert!(!help.is_empty(), "{}: no help in {answer:#}", case.name);
            assert_eq!(help[number]["certain"], true, "{}: {answer:#}", case.name);
            eprintln!("{}: {}", case.name, help[number]["text"].as_str().unwrap());
            by_hand += stage.carry_out(&help[number]);
            stage.wait_scheduled();
            stage.clear();
            paper.assert_alive();
            carried_out += 1;
            number += 1;
            if number == help.len() {
                break;
            }
        }
    }
    eprintln!(
        "{} cases, {carried_out} proposals carried out, {by_hand} steps in them by hand",
        cases.len()
    );
}

#[test]
fn doctor_reads_a_real_installation() {
    let paper = Paper::start();
    paper.set_node(&PaperNode::new("a", &[16384]));
    let output = paper.plugin(&["doctor", "--output", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let status = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name);
        check.unwrap()["status"].clone()
    };
    // The parts that this cluster has, and then those that it lacks.
    for name in [
        "API server",
        "your rights",
        "node agents",
        "device plugin",
        "totals",
        "cards",
        "predecessors",
        "kube-scheduler",
        "admission policies",
    ] {
        assert_eq!(status(name), "ok", "{name}: {report:#}");
    }
    for name in ["extender's lease", "GpuBudget", "webhook"] {
        assert_eq!(status(name), "warn", "{name}: {report:#}");
    }
    assert!(output.status.success(), "{report:#}");
    paper
        .ctl("delete validatingadmissionpolicybinding gpushare-allocation-records")
        .unwrap();
    let output = paper.plugin(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_contains(&text, "not there or not bound: gpushare-allocation-records");
}

#[test]
fn kubectl_completes_what_the_plugin_knows() {
    let paper = Paper::start();
    paper.set_node(&PaperNode::new("a", &[16384]));
    let words = paper.completed(&["gpushare", "w"]);
    assert!(words.starts_with("why\t"), "{words}");
    let nodes = paper.completed(&["gpushare", "cards", ""]);
    assert!(nodes.starts_with("a\n:4"), "{nodes}");
}
