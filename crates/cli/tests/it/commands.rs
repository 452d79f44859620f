//! Every command of the plugins, as listed by the programs themselves, and how tests call each of them. Tests fail on a
//! new command until its calls are added here.

use std::path::Path;

use assert_cmd::Command;

use crate::cluster::Cluster;
use crate::said::stdout;
use crate::why::{share, waiting};

/// A command by the name of its man page, such as `kubectl-gpushare-budget-grant`.
pub(crate) struct Named(String);

/// A way to call a command. `POD` is the path of a file with a pod.
pub(crate) type Call = &'static [&'static str];

/// All commands that have a help text.
pub(crate) fn all() -> Vec<Named> {
    let directory = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .args(["docs", "man"])
        .arg(directory.path())
        .assert()
        .success();
    let files = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .map(|file| file.strip_suffix(".1").unwrap().to_owned())
        .collect();
    names.sort();
    names.into_iter().map(Named).collect()
}

/// All commands without subcommands.
pub(crate) fn that_run() -> Vec<Named> {
    let (known, mut commands) = (all(), all());
    commands.retain(|Named(name)| {
        let nested = format!("{name}-");
        !known.iter().any(|Named(other)| other.starts_with(&nested))
    });
    commands
}

/// All commands that query a cluster, with the ways to call them.
pub(crate) fn that_ask() -> Vec<(Named, Call)> {
    let each = that_run().into_iter().flat_map(|command| {
        let calls = command.calls().iter();
        calls.map(move |call| (Named(command.0.clone()), *call))
    });
    each.collect()
}

impl Named {
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// The words of the command after the program's name.
    pub(crate) fn words(&self) -> Vec<&str> {
        let nested = self.0.strip_prefix("kubectl-gpushare").unwrap_or_default();
        nested.split('-').filter(|word| !word.is_empty()).collect()
    }

    pub(crate) fn program(&self) -> &'static str {
        if self.0 == "kubectl-inspect-gpushare" {
            env!("CARGO_BIN_EXE_kubectl-inspect-gpushare")
        } else {
            env!("CARGO_BIN_EXE_kubectl-gpushare")
        }
    }

    pub(crate) fn help(&self) -> String {
        let mut command = Command::new(self.program());
        command
            .args(self.words())
            .arg("--help")
            .env("NO_COLOR", "1");
        stdout(&mut command)
    }

    /// The arguments for each way to call it, without those words.
    fn calls(&self) -> &'static [Call] {
        match self.words().as_slice() {
            [] => &[&[], &["-d"], &["-d", "a"]],
            ["cards"] => &[&[], &["-o", "wide"], &["a"], &["--watch"]],
            ["why"] => &[&["p"], &["-f", "POD"], &["deployment/web"]],
            ["fit"] => &[&["--mem", "1"], &["-f", "POD"]],
            ["doctor"] => &[&[]],
            ["simulate"] => &[&["--from-cluster", "-f", "POD"]],
            ["budget", "show"] => &[&[], &["-A"], &["-n", "default"], &["--budget", "b"]],
            ["budget", "grant"] => &[&["b", "1h", "--reason", "r"]],
            ["budget", "statement"] => &[&[], &["--budget", "b"]],
            // These commands query no cluster.
            ["completion" | "version"] => &[],
            other => panic!("say here how {other:?} is called"),
        }
    }

    /// The command line, with a file for `POD`.
    pub(crate) fn command(&self, cluster: &Cluster, call: &[&str], kubeconfig: &Path) -> Command {
        let file = cluster.write("pod.yaml", &waiting("p", &share(1)).to_string());
        let mut command = Command::new(self.program());
        command.args(self.words());
        for argument in call {
            if *argument == "POD" {
                command.arg(&file);
            } else {
                command.arg(argument);
            }
        }
        command
            .env("KUBECONFIG", kubeconfig)
            .env("NO_COLOR", "1")
            .env_remove("GPUSHARE_TIMEKEEPER_CA_FILE")
            // Nothing listens there: no test may reach a real cluster.
            .env("GPUSHARE_TIMEKEEPER", "https://127.0.0.1:1");
        command
    }

    /// Whether the command calls the timekeeper.
    pub(crate) fn asks_timekeeper(&self) -> bool {
        matches!(self.words().as_slice(), ["budget", "grant" | "statement"])
    }
}
