//! `cargo xtask fuzz`: searches for inputs that break a parser, for a bounded time.
//!
//! Works with the stable compiler: stable flags compile our own crates with coverage
//! (`testing/fuzz/rustc-with-coverage`), and the dependencies are the same as in every other build. Useful inputs stay
//! in the target directory, so that the next search begins with them.

mod finding;
mod report;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{self, cargo, succeed, workspace};
use finding::Finding;

/// Search for inputs that break a parser of outside input
///
/// Each target of `testing/fuzz` runs for some seconds, as many at once as there are processors. An input
/// that breaks a promise is shown with how to run it again and how to keep it as a test.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this target (default: all, the directories of testing/fuzz/corpus)
    target: Option<String>,
    /// How long each target is searched
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        conflicts_with = "replay"
    )]
    seconds: u32,
    /// Run this one input, and nothing else
    #[arg(long, value_name = "FILE", requires = "target")]
    replay: Option<PathBuf>,
}

/// A single input that takes longer than this counts as a finding too.
const SLOWEST_INPUT_SECONDS: u32 = 10;
const MOST_MEMORY_MIB: u32 = 1024;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let all = targets()?;
    let chosen = match &arguments.target {
        None => all,
        Some(name) if all.contains(name) => vec![name.clone()],
        Some(name) => bail!("no target {name:?}; there are {}", all.join(", ")),
    };
    let fuzzer = Fuzzer::build()?;
    match (&arguments.replay, chosen.as_slice()) {
        (Some(input), [target]) => {
            let input = std::path::absolute(input).context("no path")?;
            ensure!(input.is_file(), "no file {}", input.display());
            succeed(fuzzer.command(target).arg(input))
        }
        _ => fuzzer.search(&chosen, arguments.seconds),
    }
}

/// Searches all targets, each for this long.
pub(crate) fn search_all(seconds: u32) -> Result<()> {
    Fuzzer::build()?.search(&targets()?, seconds)
}

/// The names of the targets; a test in `fuzz` checks that the directories and the targets agree.
fn targets() -> Result<Vec<String>> {
    let corpus = workspace().join("testing/fuzz/corpus");
    let entries = fs::read_dir(&corpus).context("cannot read testing/fuzz/corpus")?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry
            .context("cannot read testing/fuzz/corpus")?
            .file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

struct Fuzzer {
    program: PathBuf,
    /// What outlives a search, inside the target directory.
    directory: PathBuf,
}

impl Fuzzer {
    fn build() -> Result<Self> {
        let mut build = cargo();
        // The whole workspace, so that the dependencies have the same features as in every other build.
        build.args(["test", "--workspace", "--no-run", "--test", "fuzz"]);
        build.args(["--features", "gpushare-fuzz/libfuzzer"]);
        let compiler = workspace().join("testing/fuzz/rustc-with-coverage");
        build.env("RUSTC_WORKSPACE_WRAPPER", compiler);
        let program = cargo::program(&mut build)?;
        let target = program.ancestors().nth(3);
        let directory = target
            .context("the fuzzer is in no target directory")?
            .join("fuzz");
        Ok(Self { program, directory })
    }

    fn command(&self, target: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("GPUSHARE_FUZZ_TARGET", target);
        command.env("RUST_BACKTRACE", "0");
        command.arg(format!("-timeout={SLOWEST_INPUT_SECONDS}"));
        command.arg(format!("-rss_limit_mb={MOST_MEMORY_MIB}"));
        command
    }

    fn search(&self, targets: &[String], seconds: u32) -> Result<()> {
        let waiting = Mutex::new(targets.iter());
        let failures = Mutex::new(Vec::new());
        let next = || waiting.lock().ok()?.next();
        let processors = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    while let Some(target) = next() {
                        let searched = self.search_one(target, seconds);
                        let failure = searched.and_then(|finding| match finding {
                            Some(finding) => bail!("{finding}"),
                            None => Ok(()),
                        });
                        if let (Err(error), Ok(mut failures)) = (failure, failures.lock()) {
                            println!("{error:#}");
                            failures.push(target.clone());
                        }
                    }
                });
            }
        });
        let failed = failures.into_inner().unwrap_or_default();
        ensure!(failed.is_empty(), "broken: {}", failed.join(", "));
        Ok(())
    }

    fn search_one(&self, target: &str, seconds: u32) -> Result<Option<Finding>> {
        let kept = ["corpus", "regressions"]
            .map(|kind| workspace().join("testing/fuzz").join(kind).join(target))
            .into_iter()
            .filter(|directory| directory.is_dir());
        let kept: Vec<PathBuf> = kept.collect();
        let own = |kind: &str| self.directory.join(kind).join(target);
        let (found, broken) = (own("found"), own("broken"));
        let (words, log) = (own("words"), own("log"));
        for directory in [Some(&*found), Some(&*broken), words.parent(), log.parent()] {
            let directory = directory.context("a path without parent")?;
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        fs::write(&words, dictionary(&kept)?).context("cannot write the dictionary")?;
        let output = File::create(&log).context("cannot write the log")?;
        let before = files(&broken);

        let mut command = self.command(target);
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-artifact_prefix={}/", broken.display()));
        command.arg(format!("-dict={}", words.display()));
        command.args(["-reload=0", "-print_final_stats=1"]);
        command.arg(found).args(kept);
        let second = output.try_clone().context("cannot write the log")?;
        let status = command
            .stdout(output)
            .stderr(second)
            .status()
            .context("cannot start the fuzzer")?;
        let text = fs::read(&log).context("cannot read the log")?;
        let text = String::from_utf8_lossy(&text);
        if status.success() {
            println!("{target}: {}", report::summary(&text));
            return Ok(None);
        }
        let input = files(&broken).difference(&before).next().cloned();
        Ok(Some(Finding {
            target: target.to_owned(),
            complaint: report::complaint(&text),
            input,
            log,
        }))
    }
}

fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The words of the kept inputs: without them the search would have to guess every key letter by letter.
fn dictionary(kept: &[PathBuf]) -> Result<String> {
    let mut words = BTreeSet::new();
    for file in kept.iter().flat_map(|directory| files(directory)) {
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let part_of_word = |letter: char| letter.is_ascii_alphanumeric() || "_./-".contains(letter);
        let found = text.split(|letter| !part_of_word(letter));
        words.extend(
            found
                .filter(|word| (2..=64).contains(&word.len()))
                .map(|word| format!("\"{word}\"\n")),
        );
    }
    Ok(words.into_iter().collect())
}
