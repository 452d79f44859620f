//! The man pages are generated from the program.

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
