//! What every command that asks a cluster says when it cannot: no cluster, no rights, an old server, a closed pipe.

use std::process::{Command as Process, Stdio};

use assert_cmd::Command;
use gpushare_apiserver::{Answer, On, Times};

use crate::cluster::Cluster;
use crate::why::{node, share, waiting};

/// Every command that reads a cluster, with what it needs.
const COMMANDS: [&[&str]; 6] = [
    &["cards"],
    &["why", "p"],
    &["why", "-f", "POD"],
    &["fit", "--mem", "1"],
    &["doctor"],
    &["simulate", "--from-cluster", "-f", "POD"],
];

fn complaint(cluster: &Cluster, arguments: &[&str], kubeconfig: &std::path::Path) -> String {
    let file = cluster.write("pod.yaml", &waiting("p", &share(1)).to_string());
    let arguments = arguments.iter().map(|argument| {
        if *argument == "POD" {
            file.as_os_str()
        } else {
            argument.as_ref()
        }
    });
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("NO_COLOR", "1")
        .assert()
        .code(1)
        .get_output()
        .clone();
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_kubeconfig_every_command_says_what_to_give() {
    let cluster = Cluster::start().await;
    for command in COMMANDS {
        let text = complaint(
            &cluster,
            command,
            std::path::Path::new("/nowhere/kubeconfig"),
        );
        assert!(
            text.contains("cannot find a cluster: give --kubeconfig or set KUBECONFIG"),
            "{command:?}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_every_command_says_what_it_could_not_do() {
    let cluster = Cluster::start().await;
    // Nobody listens on port 1.
    let config = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let gone = config.replace(&cluster.server().url(), "http://127.0.0.1:1");
    let gone = cluster.write("gone", &gone);
    for command in COMMANDS {
        let text = complaint(&cluster, command, &gone);
        assert!(
            text.starts_with("error: cannot ") && text.contains("check the kubeconfig"),
            "{command:?}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rights_every_command_names_the_right_that_is_missing() {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("a", &[16_384])).await;
    cluster.add_pod(&waiting("p", &share(1))).await;
    cluster.server().faults().answer(
        On::any().resource("nodes"),
        Times::Always,
        Answer::Forbidden,
    );
    for command in COMMANDS {
        let text = complaint(&cluster, command, &cluster.kubeconfig());
        assert!(
            text.contains("cannot list nodes") && text.contains("you may list nodes"),
            "{command:?}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_newer_kinds_is_told_from_a_broken_one() {
    // The embedded server knows neither budgets nor admission policies, as an old one.
    let cluster = Cluster::start().await;
    cluster.add_node(&node("a", &[16_384])).await;
    cluster.add_pod(&waiting("p", &share(1))).await;
    for (command, code) in [
        (&["why", "p"][..], 0),
        (&["fit", "--mem", "1"], 0),
        (&["doctor"], 1),
    ] {
        Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
            .args(command)
            .env("KUBECONFIG", cluster.kubeconfig())
            .assert()
            .code(code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_reading_hears_no_complaint() {
    let cluster = Cluster::start().await;
    for number in 0..200 {
        cluster
            .add_node(&node(&format!("n{number}"), &[16_384; 8]))
            .await;
    }
    let mut child = Process::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .args(["cards", "-o", "json"])
        .env("KUBECONFIG", cluster.kubeconfig())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn every_command_has_a_help_text_with_an_example() {
    let help = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
            .args(arguments)
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let all = help(&["--help"]);
    let commands = all
        .split("Commands:")
        .nth(1)
        .unwrap()
        .split("Options:")
        .next()
        .unwrap();
    let names: Vec<&str> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(
        names.contains(&"why") && names.contains(&"version"),
        "{names:?}"
    );
    for name in names {
        let text = help(&[name, "--help"]);
        assert!(text.contains("Examples:"), "{name}: {text}");
        assert!(!text.contains('\u{1b}'), "{name} is coloured");
    }
}
