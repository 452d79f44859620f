//! A progress bar on standard error, if it is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows how far a simulation is.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    pub fn new(pods: usize, what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::new(u64::try_from(pods).unwrap_or(0));
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} pods {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Self(bar)
    }

    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    pub fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
