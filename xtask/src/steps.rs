//! A run as a list of named steps: a heading and a duration for each, test counts summed up, and
//! one table at the end. After a failed step the others still run.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The steps done so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
    tests: Tests,
}

#[derive(Debug)]
struct Step {
    name: String,
    took: Duration,
    passed: bool,
}

/// How many tests passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tests {
    passed: u64,
    failed: u64,
}

impl Steps {
    /// Does one step. The error of a failed step is shown at once; the run continues.
    pub(crate) fn run<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Tests) -> Result<T>,
    ) -> Option<T> {
        println!("\n== {name}");
        let begin = Instant::now();
        let result = work(&mut self.tests);
        let took = begin.elapsed();
        let passed = result.is_ok();
        let value = match result {
            Ok(value) => Some(value),
            Err(error) => {
                println!("{error:#}");
                None
            }
        };
        println!(
            "== {name}: {} after {:.1} s",
            verdict(passed),
            took.as_secs_f64()
        );
        self.done.push(Step {
            name: name.to_owned(),
            took,
            passed,
        });
        value
    }

    /// Prints the table and the sum. Returns an error if anything failed, or if the filter matched no test.
    pub(crate) fn finish(self, filter: Option<&str>) -> Result<()> {
        let width = self
            .done
            .iter()
            .map(|step| step.name.chars().count())
            .max()
            .unwrap_or(0);
        println!();
        for Step { name, took, passed } in &self.done {
            println!(
                "{name:width$}  {:>8.1} s  {}",
                took.as_secs_f64(),
                verdict(*passed)
            );
        }
        let total: Duration = self.done.iter().map(|step| step.took).sum();
        println!("{:width$}  {:>8.1} s", "total", total.as_secs_f64());
        println!("{} passed, {} failed", self.tests.passed, self.tests.failed);
        let failed: Vec<&str> = self
            .done
            .iter()
            .filter(|step| !step.passed)
            .map(|step| step.name.as_str())
            .collect();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        match filter {
            Some(filter) if self.tests == Tests::default() => {
                bail!("no test's name contains {filter:?}")
            }
            _ => Ok(()),
        }
    }
}

fn verdict(passed: bool) -> &'static str {
    if passed { "ok" } else { "FAILED" }
}

impl Tests {
    /// Runs a test command, passing its output on, and adds up the results it reports.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<()> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let stdout = child
            .stdout
            .take()
            .context("the test command has no output")?;
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context("cannot read the test command's output")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            self.count(&line);
        }
        let status = child.wait().context("cannot wait for the test command")?;
        if !status.success() {
            bail!("the tests ended with {status}");
        }
        Ok(())
    }

    /// Reads `test result: ok. 3 passed; 1 failed; …`.
    fn count(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let mut previous = "";
        for word in result.split([' ', ';']).filter(|word| !word.is_empty()) {
            let number = || previous.parse::<u64>().unwrap_or(0);
            match word {
                "passed" => self.passed += number(),
                "failed" => self.failed += number(),
                _ => {}
            }
            previous = word;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_several_test_programs_are_added_up() {
        let mut tests = Tests::default();
        let mut command = Command::new("sh");
        let script = "echo running 3 tests; \
            echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'; \
            echo 'test result: FAILED. 10 passed; 2 failed; 0 ignored; finished in 0.1s'";
        tests.run(command.args(["-c", script])).unwrap();
        assert_eq!(
            tests,
            Tests {
                passed: 13,
                failed: 2
            }
        );
    }

    #[test]
    fn one_failed_step_fails_the_run_and_is_named_but_the_next_one_still_runs() {
        let mut steps = Steps::default();
        assert!(
            steps
                .run("first", |_| -> Result<()> { bail!("broken") })
                .is_none()
        );
        assert!(steps.run("second", |_| Ok(())).is_some());
        assert_eq!(steps.finish(None).unwrap_err().to_string(), "failed: first");
    }

    #[test]
    fn a_filter_that_no_test_matches_is_an_error() {
        let error = Steps::default().finish(Some("bnipack")).unwrap_err();
        assert_eq!(error.to_string(), "no test's name contains \"bnipack\"");
    }
}
