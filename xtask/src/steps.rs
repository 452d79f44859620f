//! A run as a list of named steps: a heading and a duration for each, test counts summed up, and
//! one table at the end. After a failed step the others still run.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

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

    /// Runs test commands one after the other. All are run, even when one fails.
    pub(crate) fn run_all(&mut self, commands: Vec<Command>) -> Result<()> {
        let mut failures = Vec::new();
        for mut command in commands {
            let failed = self.run(&mut command).err();
            failures.extend(failed.map(|error| format!("{error:#}")));
        }
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(())
    }

    /// Runs test commands, as many at once as there are processors, because many tests only wait. Each line is shown as it comes,
    /// behind the name of its command. All are run, even when one fails.
    pub(crate) fn run_side_by_side(&mut self, commands: Vec<Command>) -> Result<()> {
        let waiting = Mutex::new(commands.into_iter());
        let shared = Mutex::new((self, Vec::new()));
        let next = || waiting.lock().ok()?.next();
        let processors = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    while let Some(mut command) = next() {
                        let name = name_of(&command);
                        let mut own = Self::default();
                        let ended = own.follow(&mut command, &name);
                        let Ok(mut shared) = shared.lock() else {
                            return;
                        };
                        let (tests, failures) = &mut *shared;
                        tests.passed += own.passed;
                        tests.failed += own.failed;
                        failures.extend(ended.err().map(|error| format!("{name}: {error:#}")));
                    }
                });
            }
        });
        let (_, failures) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            failures.is_empty(),
            "these tests failed:\n{}",
            failures.join("\n")
        );
        Ok(())
    }

    /// Runs a test command to its end, and shows both its streams in the order in which they come.
    fn follow(&mut self, command: &mut Command, name: &str) -> Result<()> {
        let (reader, writer) = io::pipe().context("cannot make a pipe")?;
        let errors = writer.try_clone().context("cannot share a pipe")?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(errors)
            .spawn()
            .context("cannot start it")?;
        // Close the writing ends that the command keeps, or the output would never end.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.context("cannot read its output")?;
            let line = String::from_utf8_lossy(&line);
            println!("{name}: {line}");
            self.count(&line);
        }
        let status = child.wait().context("cannot wait for it")?;
        ensure!(status.success(), "it ended with {status}");
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

/// The package and the program of a test command, without the hash that cargo appends: `node it`.
pub(crate) fn name_of(command: &Command) -> String {
    let file = |path: &Path| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let program = file(Path::new(command.get_program()));
    let program = match program.rsplit_once('-') {
        Some((name, _)) => name,
        None => &program,
    };
    let package = command.get_current_dir().map(file);
    package.map_or_else(
        || program.to_owned(),
        |package| format!("{package} {program}"),
    )
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
        assert_eq!(
            error,
            "these tests failed:\nsh: it ended with exit status: 101"
        );
        let (passed, failed) = (7, 1);
        assert_eq!(tests, Tests { passed, failed });
    }

    #[test]
    fn the_output_of_tests_side_by_side_names_package_and_program() {
        let mut command = Command::new("/out/debug/deps/real_cluster-0123456789abcdef");
        command.current_dir("/src/testing/rig");
        assert_eq!(name_of(&command), "rig real_cluster");
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
