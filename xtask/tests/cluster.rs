//! `cargo xtask cluster` as a user runs it, on real clusters. Needs root and the cluster's
//! programs, so only `cargo xtask e2e` builds and runs it.

#![expect(clippy::expect_used, reason = "a test stops at the first surprise")]

use std::process::{Command, Output};

/// A cluster whose name only this test uses, stopped at the end of the test.
struct Cluster {
    name: String,
}

impl Cluster {
    fn named(purpose: &str) -> Self {
        Self {
            name: format!("{purpose}-{}", std::process::id()),
        }
    }

    /// Runs `cargo xtask cluster ACTION` and returns its output.
    fn run(&self, action: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["cluster", action, "--name", &self.name])
            .output()
            .expect("xtask starts");
        assert!(output.status.success(), "cluster {action}: {output:?}");
        String::from_utf8(output.stdout).expect("xtask prints text")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["cluster", "down", "--name", &self.name])
            .output();
    }
}

/// Runs a line in a shell that has evaluated the printed exports.
fn shell(exports: &str, line: &str) -> Output {
    Command::new("sh")
        .args(["-c", &format!("{exports}\n{line}")])
        .output()
        .expect("a shell starts")
}

fn exports(printed: &str) -> String {
    let lines: Vec<&str> = printed
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("export "))
        .collect();
    assert_eq!(lines.len(), 2, "KUBECONFIG and PATH in: {printed}");
    lines.join("\n")
}

#[test]
fn plain_kubectl_works_with_the_printed_settings_until_the_cluster_is_taken_down() {
    let cluster = Cluster::named("person");
    assert!(cluster.run("status").contains("is not running"));
    let settings = exports(&cluster.run("up"));
    let nodes = shell(&settings, "kubectl get nodes --output=name");
    assert_eq!(String::from_utf8_lossy(&nodes.stdout), "node/node\n");
    assert!(cluster.run("status").contains("is running"));

    assert!(cluster.run("down").contains("is stopped"));
    assert!(cluster.run("status").contains("is not running"));
    let nodes = shell(&settings, "kubectl get nodes");
    assert!(!nodes.status.success(), "the cluster still answers");
}

#[test]
fn up_and_down_may_be_repeated() {
    let cluster = Cluster::named("again");
    let first = exports(&cluster.run("up"));
    let second = cluster.run("up");
    assert!(second.contains("is already running"), "{second}");
    assert_eq!(first, exports(&second));
    cluster.run("down");
    assert!(cluster.run("down").contains("is not running"));
}
