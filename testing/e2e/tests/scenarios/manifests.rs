//! A real API server accepts the files of `deploy/`, and they contain nothing that it does not know.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use e2e::Kubectl;
use e2e::world::deploy;
use gpushare_rig::{Options, Rig};

/// The other files need what these create: the namespace and the kinds.
const FIRST: [&str; 2] = ["rbac.yaml", "crd.yaml"];

#[test]
fn the_api_server_accepts_every_manifest_and_warns_of_nothing() {
    let rig = Rig::start(Options::default()).unwrap();
    let files = fs::read_dir(deploy("")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let files: BTreeSet<PathBuf> = files.collect();
    let first = FIRST.map(deploy);
    assert!(first.iter().all(|file| files.contains(file)), "{files:?}");
    for file in &first {
        apply(&rig, file, "");
    }
    for file in &files {
        let answer = apply(&rig, file, "--dry-run=server");
        let mut lines = answer.lines();
        let tried = lines.all(|line| line.ends_with("(server dry run)"));
        assert!(tried, "{answer}");
    }
    assert!(files.len() > FIRST.len());
}

/// Applies a file. A warning from the API server, such as one about an unknown field, is a failure.
fn apply(rig: &Rig, file: &Path, flags: &str) -> String {
    let apply = "apply --validate=strict --warnings-as-errors -f";
    rig.ctl(&format!("{apply} {} {flags}", file.display()))
        .unwrap()
}
