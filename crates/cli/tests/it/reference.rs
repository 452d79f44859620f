//! The reference is generated from the program and up to date.

use std::path::Path;
use std::process::Command;

fn docs(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .arg("docs")
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_committed_reference_is_what_the_program_says() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let committed = std::fs::read_to_string(committed).unwrap();
    assert!(
        docs(&["markdown"]) == committed,
        "docs/cli.md is out of date: run `cargo xtask docs`"
    );
}

#[test]
fn every_command_has_a_man_page() {
    let directory = tempfile::tempdir().unwrap();
    docs(&["man", directory.path().to_str().unwrap()]);
    for name in [
        "kubectl-gpushare",
        "kubectl-gpushare-why",
        "kubectl-gpushare-budget",
        "kubectl-gpushare-budget-grant",
        "kubectl-inspect-gpushare",
    ] {
        let page = std::fs::read_to_string(directory.path().join(format!("{name}.1"))).unwrap();
        assert!(
            page.contains(".TH") && page.contains("SYNOPSIS"),
            "{name}: {page}"
        );
    }
}
