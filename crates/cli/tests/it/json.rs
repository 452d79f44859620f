//! Output for programs: every command that prints JSON keeps its schema. The programs themselves list the commands.

use serde_json::{Value, json};

use crate::budget::{Fake, STATEMENT, two_budgets};
use crate::cluster::Cluster;
use crate::commands;
use crate::simulate;
use crate::why::{node, share, waiting};

/// Each path in a document with the type of its value. All elements of a list count as one path.
fn places(place: &str, value: &Value, lines: &mut Vec<String>) {
    let kind = match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                places(&format!("{place}.{name}"), field, lines);
            }
            return;
        }
        Value::Array(items) => {
            for item in items {
                places(&format!("{place}[]"), item, lines);
            }
            return;
        }
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "whole number",
        Value::String(_) => "text",
    };
    let line = format!("{place}: {kind}");
    if !lines.contains(&line) {
        lines.push(line);
    }
}

pub(crate) fn schema_of(report: &Value) -> String {
    let mut lines = Vec::new();
    places("", report, &mut lines);
    lines.sort();
    lines.join("\n")
}

/// A bit of everything: two nodes, one of them cordoned; a pod that holds a card, and one that is too large to fit.
async fn cluster() -> Cluster {
    let mut cordoned = node("b", &[8_192]);
    cordoned["spec"] = json!({"unschedulable": true});
    let nodes = [node("a", &[16_384, 16_384]), cordoned];
    let cluster = Cluster::of_nodes(&nodes).await;
    cluster
        .place("holder", "a", &share(12_288), "GPU-a-0")
        .await;
    cluster.add_pod(&waiting("p", &share(20_000))).await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_that_prints_json_keeps_its_schema() {
    let cluster = cluster().await;
    let budgets = two_budgets(&json!({"token": "t"})).await;
    let granted = json!({"id": "t-7", "budget": "vision", "amount": "72000", "author": "ada", "reason": "deadline",
        "periodStarts": "2026-11-15T23:00:00Z", "grantedAt": "2026-11-16T09:00:00Z"});
    let (statement, grant) = (
        Fake::start(200, STATEMENT),
        Fake::start(201, &granted.to_string()),
    );
    let mut seen = 0;
    for command in commands::that_run() {
        if !command.help().contains("- json:") {
            continue;
        }
        seen += 1;
        let on = |cluster: &Cluster, call: &[&str]| {
            let call = [call, &["-o", "json"]].concat();
            command.command(cluster, &call, &cluster.kubeconfig())
        };
        let mut run = match command.words().as_slice() {
            [] | ["cards" | "doctor" | "version"] => on(&cluster, &[]),
            ["why"] => on(&cluster, &["p"]),
            ["fit"] => on(&cluster, &["--mem", "4096"]),
            ["simulate"] => on(&cluster, &["--from-cluster", "-f", "POD"]),
            ["budget", "show"] => on(&budgets, &["-A"]),
            ["budget", "grant"] => {
                grant.reached_by(on(&budgets, &["vision", "20h", "--reason", "r"]))
            }
            ["budget", "statement"] => statement.reached_by(on(&budgets, &["-n", "train"])),
            other => panic!("say here how {other:?} prints JSON"),
        };
        let output = run.output().unwrap();
        // The doctor fails on a cluster with so little in it.
        let expected = i32::from(command.words() == ["doctor"]);
        assert_eq!(output.status.code(), Some(expected), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        insta::assert_snapshot!(
            format!("schema_of_{}", command.name().replace('-', "_")),
            schema_of(&report)
        );
    }
    assert!(seen >= 9, "{seen} commands print JSON");
    for (name, flags) in [
        ("simulate", &[][..]),
        ("simulate_churn", &["--churn", "1.1"]),
    ] {
        let report = simulate::json(flags);
        insta::assert_snapshot!(format!("schema_of_{name}_of_files"), schema_of(&report));
    }
}
