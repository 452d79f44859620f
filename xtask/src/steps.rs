//! A run as a list of named steps: a heading and a duration for each, test counts summed up, and
//! one table at the end. After a failed step the others still run.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
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

    /// Runs test commands, as many at once as there are processors, because many tests only wait. The output of each is shown
    /// when it has ended. All are run, even when one fails.
    pub(crate) fn run_side_by_side(&mut self, commands: Vec<Command>) -> Result<()> {
        let waiting = Mutex::new(commands.into_iter());
        let shared = Mutex::new((self, Vec::new()));
        let next = || waiting.lock().ok()?.next();
        let processors = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    while let Some(mut command) = next() {
                        let name = command.get_program().display().to_string();
                        let ended = to_the_end(&mut command);
                        let Ok(mut shared) = shared.lock() else {
                            return;
                        };
                        let (tests, failures) = &mut *shared;
                        match ended {
                            Ok((output, passed)) => {
                                print!("\n{name}\n{output}");
                                output.lines().for_each(|line| tests.count(line));
                                failures.extend((!passed).then_some(name));
                            }
                            Err(error) => failures.push(format!("{error:#}")),
                        }
                    }
                });
            }
        });
        let (_, failures) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !failures.is_empty() {
            bail!("these tests failed: {}", failures.join(", "));
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

/// What a command printed, both streams in the order in which they came, and whether it succeeded.
fn to_the_end(command: &mut Command) -> Result<(String, bool)> {
    let name = command.get_program().display().to_string();
    let (mut reader, writer) = io::pipe().context("cannot make a pipe")?;
    let errors = writer.try_clone().context("cannot share a pipe")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    // The command keeps the writing ends, and the output would not end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut output = Vec::new();
    reader
        .read_to_end(&mut output)
        .with_context(|| format!("cannot read the output of {name}"))?;
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for {name}"))?;
    Ok((
        String::from_utf8_lossy(&output).into_owned(),
        status.success(),
    ))
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
    fn of_tests_side_by_side_all_run_and_the_failed_ones_are_named() {
        let script = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let ends_well = "echo 'test result: ok. 3 passed; 0 failed'";
        let fails = "echo 'test result: FAILED. 1 passed; 1 failed'; exit 101";
        let mut tests = Tests::default();
        let commands = vec![script(fails), script(ends_well), script(ends_well)];
        let error = tests.run_side_by_side(commands).unwrap_err().to_string();
        assert_eq!(error, "these tests failed: sh");
        let (passed, failed) = (7, 1);
        assert_eq!(tests, Tests { passed, failed });
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
