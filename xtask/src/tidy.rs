//! `cargo xtask tidy`: the rules of this repository that no other tool checks.

mod layers;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::workspace;

/// Check the rules of this repository that no other tool checks
///
/// No file with too many lines, no path of somebody's machine, no test that is switched off, a
/// first line in every module that says what it is for, and no crate that depends on what is above it.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// A source file longer than this has more than one purpose.
const MAX_LINES: usize = 600;

/// Texts that must not be in a tracked file, split so that this file may name them.
const FORBIDDEN: [(&str, &str, &str); 3] = [
    ("/wo", "rk/", "the path of a machine"),
    ("/ro", "ot/", "the path of a machine"),
    ("#[ign", "ore", "a test that is switched off"),
];

pub(crate) fn run(_arguments: &Arguments) -> Result<()> {
    check()
}

/// Checks all tracked files and names every violation.
pub(crate) fn check() -> Result<()> {
    let mut violations = Vec::new();
    for file in tracked()? {
        // A file may be deleted but not yet committed, and not every file is text.
        if let Ok(text) = fs::read_to_string(workspace().join(&file)) {
            violations.extend(examine(&file, &text));
        }
    }
    if !violations.is_empty() {
        bail!("{}", violations.join("\n"));
    }
    Ok(())
}

fn tracked() -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(workspace())
        .output()
        .context("cannot start git")?;
    ensure!(
        output.status.success(),
        "git ls-files failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout).context("a tracked file has a strange name")?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

fn examine(file: &str, text: &str) -> Vec<String> {
    let mut violations = layers::examine(file, text);
    let extension = Path::new(file)
        .extension()
        .and_then(|extension| extension.to_str());
    let source = matches!(extension, Some("rs" | "sh" | "py"));
    let lines = text.lines().count();
    if source && !is_test(file) && lines > MAX_LINES {
        violations.push(format!(
            "{file}: {lines} lines, at most {MAX_LINES} are allowed"
        ));
    }
    if extension == Some("rs") && !file.ends_with("/tests.rs") && !text.starts_with("//!") {
        violations.push(format!(
            "{file}: begins without `//!` saying what it is for"
        ));
    }
    for (number, line) in text.lines().enumerate() {
        for (start, end, what) in FORBIDDEN {
            if begins_in(line, &format!("{start}{end}")) {
                violations.push(format!("{file}:{}: {what}: {start}{end}", number + 1));
            }
        }
    }
    violations
}

/// Whether `text` is in the line and not the middle of a longer path, as in `/proc/PID/root/run`.
fn begins_in(line: &str, text: &str) -> bool {
    line.match_indices(text).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        before.is_none_or(|before| !before.is_alphanumeric() && !"_.-}>)*".contains(before))
    })
}

fn is_test(file: &str) -> bool {
    file.split('/')
        .any(|part| matches!(part, "tests" | "tests.rs" | "e2e" | "integration"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, text: &str, expected: &[&str]) {
        assert_eq!(examine(file, text), expected);
    }

    #[test]
    fn a_good_module_has_no_violations() {
        check("crates/a/src/lib.rs", "//! What it owns.\n", &[]);
    }

    #[test]
    fn long_sources_are_refused_unless_they_are_tests() {
        let long = format!("//! Long.\n{}", "\n".repeat(MAX_LINES));
        check(
            "a/src/lib.rs",
            &long,
            &["a/src/lib.rs: 601 lines, at most 600 are allowed"],
        );
        check("a/tests/it.rs", &long, &[]);
    }

    #[test]
    fn machine_paths_and_switched_off_tests_are_found_with_their_line() {
        let path = format!("see {}{}x\n", "/wo", "rk/");
        check(
            "README.md",
            &path,
            &["README.md:1: the path of a machine: /wo\u{72}k/"],
        );
        check(
            "README.md",
            &format!("target{path}").replace("see ", ""),
            &[],
        );
        let ignored = format!("//! Tests.\n{}{}]\n", "#[ign", "ore");
        let expected = format!("a.rs:2: a test that is switched off: {}{}", "#[ign", "ore");
        check("a.rs", &ignored, &[&expected]);
    }

    #[test]
    fn a_module_without_a_purpose_is_refused() {
        check(
            "a.rs",
            "fn f() {}\n",
            &["a.rs: begins without `//!` saying what it is for"],
        );
    }
}
