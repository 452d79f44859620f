//! The man pages are generated from the program.

use assert_cmd::Command;

use crate::said::{assert_parts, stdout};

#[test]
fn every_command_has_a_man_page() {
    let directory = tempfile::tempdir().unwrap();
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"));
    stdout(plugin.args(["docs", "man"]).arg(directory.path()));
    for name in [
        "kubectl-gpushare",
        "kubectl-gpushare-why",
        "kubectl-gpushare-budget",
        "kubectl-gpushare-budget-grant",
        "kubectl-inspect-gpushare",
    ] {
        let page = std::fs::read_to_string(directory.path().join(format!("{name}.1"))).unwrap();
        assert_parts(&page, &[".TH", "SYNOPSIS"]);
    }
}
