//! The list of runs, and the calls of the plugin for them, on all cores.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize, Serializer};

use super::targets::TRACES;

/// The default first, then its rivals.
pub(super) const POLICIES: [&str; 5] = ["learned", "fgd", "first-fit", "best-fit", "binpack"];

/// Whether pods leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Fill,
    /// With this load, in percent.
    Churn(u32),
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::Fill, Self::Churn(90), Self::Churn(110)];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fill => write!(f, "fill @100"),
            Self::Churn(load) => write!(f, "churn {}.{:02}", load / 100, load % 100),
        }
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One replay to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Job {
    pub(super) trace: &'static str,
    pub(super) policy: &'static str,
    pub(super) mode: Mode,
    pub(super) seed: u64,
}

/// One replay done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Run {
    #[serde(flatten)]
    pub(super) job: Job,
    /// Percent of the cluster.
    pub(super) allocated: f64,
}

/// The fields we use of the output of `simulate -o json`.
#[derive(Deserialize)]
struct Report {
    at100: Option<f64>,
    #[serde(default)]
    steady: Vec<SteadyState>,
}

#[derive(Deserialize)]
struct SteadyState {
    allocated: f64,
}

pub(super) fn nodes(folder: &Path) -> PathBuf {
    folder.join("openb_node_list_gpu_node.csv")
}

pub(super) fn pods(folder: &Path, trace: &str) -> PathBuf {
    folder.join(format!("openb_pod_list_{trace}.csv"))
}

pub(super) fn arrivals(folder: &Path, trace: &str) -> PathBuf {
    folder.join("arrivals").join(format!("{trace}.tsv"))
}

impl Job {
    fn all(seeds: &[u64]) -> Vec<Self> {
        let mut jobs = Vec::new();
        for mode in Mode::ALL {
            for policy in POLICIES {
                for trace in TRACES.iter().map(|trace| trace.name) {
                    jobs.extend(seeds.iter().map(|seed| Self {
                        trace,
                        policy,
                        mode,
                        seed: *seed,
                    }));
                }
            }
        }
        jobs
    }

    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("simulate");
        command.arg("--nodes").arg(nodes(folder));
        command.arg("--pods").arg(pods(folder, self.trace));
        command.arg("--arrivals").arg(arrivals(folder, self.trace));
        command.args(["--policy", self.policy, "--seed", &self.seed.to_string()]);
        command.args(["--output", "json"]);
        if let Mode::Churn(load) = self.mode {
            command.arg("--churn");
            command.arg(format!("{}.{:02}", load / 100, load % 100));
        }
        command
    }

    fn run(self, program: &Path, folder: &Path) -> Result<Run> {
        let output = self
            .command(program, folder)
            .output()
            .with_context(|| format!("cannot start {}", program.display()))?;
        ensure!(
            output.status.success(),
            "simulating {} with {}, seed {}: {}",
            self.trace,
            self.policy,
            self.seed,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let report: Report =
            serde_json::from_slice(&output.stdout).context("cannot read the report")?;
        let allocated = match self.mode {
            Mode::Fill => report.at100,
            Mode::Churn(_) => report.steady.first().map(|steady| steady.allocated),
        };
        Ok(Run {
            job: self,
            allocated: allocated.context("the report lacks what was measured")?,
        })
    }
}

/// Does all runs. The first failure stops them.
pub(super) fn all(program: &Path, folder: &Path, seeds: &[u64]) -> Result<Vec<Run>> {
    let jobs = Job::all(seeds);
    // Drawn on standard error, and only if that is a terminal.
    let bar = ProgressBar::new(jobs.len().try_into().unwrap_or(u64::MAX));
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {eta} left") {
        bar.set_style(style);
    }
    let waiting = Mutex::new(jobs.iter());
    let work = || {
        let mut done = Vec::new();
        loop {
            let next = waiting.lock().ok().and_then(|mut jobs| jobs.next());
            let Some(job) = next else {
                return Ok(done);
            };
            let run = job.run(program, folder);
            if run.is_err()
                && let Ok(mut jobs) = waiting.lock()
            {
                *jobs = [].iter();
            }
            done.push(run?);
            bar.inc(1);
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<Result<Vec<Run>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a worker panicked"))?)
            .collect()
    });
    bar.finish_and_clear();
    let mut runs = Vec::new();
    for result in results {
        runs.extend(result?);
    }
    // In the order of the jobs, whichever core finished first.
    runs.sort_by_key(|run| jobs.iter().position(|job| *job == run.job));
    Ok(runs)
}
