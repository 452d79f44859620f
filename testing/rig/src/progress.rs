//! Progress of long work: a spinner with elapsed seconds on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

/// How often a plain log reports that a step is still running.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Counts the steps of one piece of work and shows the current one.
#[derive(Debug)]
pub struct Progress {
    total: usize,
    started: usize,
}

impl Progress {
    /// Work of `total` steps.
    pub fn new(total: usize) -> Self {
        Self { total, started: 0 }
    }

    /// Runs one step and reports it; an error ends the step's line too, and is passed on.
    pub fn step<T>(&mut self, label: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.started += 1;
        let label = format!("[{}/{}] {label}", self.started, self.total);
        let begin = Instant::now();
        let result = if stderr().is_terminal() {
            with_spinner(&label, work)
        } else {
            with_lines(&label, begin, work)
        };
        let end = if result.is_ok() { "done" } else { "FAILED" };
        eprintln!("{label}: {end} after {} s", begin.elapsed().as_secs());
        result
    }
}

fn with_spinner<T>(label: &str, work: impl FnOnce() -> T) -> T {
    let bar = ProgressBar::new_spinner().with_message(label.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    let result = work();
    bar.finish_and_clear();
    result
}

fn with_lines<T>(label: &str, begin: Instant, work: impl FnOnce() -> T) -> T {
    eprintln!("{label} ...");
    let (finished, heartbeat) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while heartbeat.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{label}: still running, {} s", begin.elapsed().as_secs());
            }
        });
        let result = work();
        drop(finished);
        result
    })
}
