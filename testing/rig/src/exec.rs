//! Runs other programs so that an error says what was run and what it printed.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};

/// How much of a failed program's output an error carries.
const TAIL_LINES: usize = 30;

/// Runs `command` to its end and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    output_with_input(command, None)
}

/// Like [`output`], with `input` as the program's standard input (nothing when `None`).
pub(crate) fn output_with_input(command: &mut Command, input: Option<&str>) -> Result<String> {
    let shown = show(command);
    command.stdin(if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let stdin = child.stdin.take();
    let finished = thread::scope(|scope| {
        // A separate thread writes the input: a program may fill its output before it reads its input.
        scope.spawn(|| {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A program that ends early closes its input; its exit status says the rest.
                let _ = stdin.write_all(input.as_bytes());
            }
        });
        child.wait_with_output()
    })
    .with_context(|| format!("cannot wait for {shown}"))?;
    let stdout = String::from_utf8_lossy(&finished.stdout);
    if !finished.status.success() {
        let stderr = String::from_utf8_lossy(&finished.stderr);
        bail!(
            "{shown} ended with {}:\n{}{}",
            finished.status,
            tail(&stdout),
            tail(&stderr)
        );
    }
    Ok(stdout.into_owned())
}

/// Runs `command` with all its output in the file `log`; an error carries the end of it.
pub(crate) fn logged(command: &mut Command, log: &Path) -> Result<()> {
    let shown = show(command);
    let file = fs::File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write the log {}", log.display()))?;
    let errors = file
        .try_clone()
        .with_context(|| format!("cannot share {}", log.display()))?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .status()
        .with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        let end = tail_of(log);
        bail!(
            "{shown} ended with {status}; the end of {}:\n{end}",
            log.display()
        );
    }
    Ok(())
}

/// A command as a person would type it; the environment is left out.
fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    format!("`{}`", words.join(" "))
}

/// The last lines of a file, or why there are none.
pub(crate) fn tail_of(log: &Path) -> String {
    match fs::read(log) {
        Ok(bytes) => tail(&String::from_utf8_lossy(&bytes)),
        Err(error) => format!("(no log {}: {error})\n", log.display()),
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(TAIL_LINES);
    lines
        .iter()
        .skip(skipped)
        .fold(String::new(), |end, line| end + line + "\n")
}

/// Whether a program of that name is in the search path.
pub(crate) fn installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_the_command_its_status_and_what_it_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo before; echo reason >&2; exit 3"]);
        let error = output(&mut command).unwrap_err().to_string();
        for part in ["`sh -c", "exit status: 3", "before", "reason"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }

    #[test]
    fn input_larger_than_a_pipe_reaches_the_program() {
        let input = "x".repeat(1 << 20);
        let echoed = output_with_input(&mut Command::new("cat"), Some(&input)).unwrap();
        assert_eq!(echoed, input);
    }

    #[test]
    fn only_the_end_of_a_long_output_is_kept() {
        let long = (1..=100).fold(String::new(), |text, n| format!("{text}line {n}\n"));
        let end = tail(&long);
        assert!(
            end.starts_with("line 71\n") && end.ends_with("line 100\n"),
            "{end}"
        );
    }
}
