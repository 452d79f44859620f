//! Completion as kubectl asks for it.

use assert_cmd::Command;

use crate::cluster::Cluster;
use crate::said::{assert_parts, stdout};
use crate::why::{node, share, waiting};

fn complete(cluster: &Cluster, words: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl_complete-gpushare"))
        .args(words)
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_come_from_the_cluster_that_the_line_chooses() {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("gpu-a", &[1])).await;
    cluster.add_pod(&waiting("train-0", &share(1))).await;
    cluster.add_pod(&waiting("serve-0", &share(1))).await;
    let mut other = waiting("elsewhere", &share(1));
    other["metadata"]["namespace"] = "team".into();
    cluster.add_pod(&other).await;
    assert_eq!(complete(&cluster, &["why", "t"]), ["train-0", ":4"]);
    assert_eq!(
        complete(&cluster, &["why", "-n", "team", ""]),
        ["elsewhere", ":4"]
    );
    assert_eq!(complete(&cluster, &["cards", ""]), ["gpu-a", ":4"]);
    let namespaces = complete(&cluster, &["why", "--namespace", "te"]);
    assert_eq!(namespaces, ["team", ":4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_does_not_answer_is_passed_over_in_silence() {
    let cluster = Cluster::start().await;
    let gone = ["why", "--kubeconfig", "/nowhere", ""];
    assert_eq!(complete(&cluster, &gone), [":4"]);
}

#[test]
fn every_shell_gets_a_script() {
    for (shell, part) in [
        ("bash", "complete"),
        ("zsh", "#compdef"),
        ("fish", "complete -c"),
    ] {
        let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"));
        let script = stdout(plugin.args(["completion", shell]));
        assert_parts(&script, &[part, "why", "doctor"]);
    }
}
