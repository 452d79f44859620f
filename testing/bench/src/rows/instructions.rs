//! Instructions of the pure decision, counted by valgrind: the same on a busy machine and on an idle one.

use std::env;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::lab::Lab;
use crate::report::{Row, Unit};

/// The package that has the decision, and its benchmark target.
const PACKAGE: &str = "gpushare-packing";
const TARGET: &str = "instructions";

pub(super) fn run(_lab: &mut Lab) -> Result<Vec<Row>> {
    let output = cargo()
        .args(["bench", "--quiet", "--package", PACKAGE, "--bench", TARGET])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "the instructions cannot be counted; if valgrind is missing (see above), install it: Debian's \
         package is called valgrind"
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(row)
        .collect()
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Parses a line with a name and a count.
fn row(line: &str) -> Result<Row> {
    let unexpected = || format!("not a name and a count: {line:?}");
    let (name, count) = line.trim().rsplit_once(' ').with_context(unexpected)?;
    let count: f64 = count.parse().with_context(unexpected)?;
    Ok(Row::new(
        format!("instructions, {}", name.trim()),
        count,
        Unit::Instructions,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_package_has_the_benchmark() {
        let output = cargo()
            .args(["metadata", "--format-version=1", "--no-deps"])
            .output()
            .unwrap();
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let named = |value: &Value, name: &str| value["name"] == name;
        let packages = metadata["packages"].as_array().unwrap();
        let package = packages.iter().find(|package| named(package, PACKAGE));
        let targets = package.unwrap()["targets"].as_array().unwrap();
        let is_ours = |target: &&Value| named(target, TARGET) && target["kind"][0] == "bench";
        assert!(targets.iter().any(|target| is_ours(&target)), "{targets:?}");
    }

    #[test]
    fn a_line_is_a_name_and_a_count() {
        assert!(row("choose/share                  123456").is_ok());
        assert!(row("choose/share").is_err());
        assert!(row("error: no valgrind").is_err());
    }
}
