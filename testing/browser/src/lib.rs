//! A real Chromium for tests: fetched from Debian's packages into the cache, driven over the DevTools protocol.
//!
//! The protocol runs through two pipes, so there is no port that another process could connect to, and the browser
//! ends with the process that started it. Everything here blocks, because tests wait for each answer anyway.

pub mod axe;
pub mod npm;
mod page;
mod pipe;
mod programs;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::process::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;

pub use page::{Look, Page};
use pipe::Pipe;
pub use programs::Chromium;

/// A running browser. It ends when dropped.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    pipe: Arc<Pipe>,
    _profile: TempDir,
}

impl Browser {
    /// Starts Chromium without a window, with an empty profile.
    pub fn start(chromium: &Chromium) -> Result<Self> {
        let profile = tempfile::tempdir().context("cannot make a directory for the browser")?;
        let mut process = command(chromium, profile.path())?
            .spawn()
            .context("cannot start Chromium")?;
        let to = process.stdin.take().context("Chromium has no input")?;
        let from = process.stdout.take().context("Chromium has no output")?;
        let browser = Self {
            process,
            pipe: Arc::new(Pipe::new(to, from)),
            _profile: profile,
        };
        browser
            .pipe
            .call(None, "Browser.getVersion", &json!({}))
            .context("Chromium does not answer")?;
        Ok(browser)
    }

    /// Opens a tab with this look.
    pub fn open(&self, look: Look) -> Result<Page> {
        let target = self
            .pipe
            .call(None, "Target.createTarget", &json!({"url": "about:blank"}))?;
        let attached = self.pipe.call(
            None,
            "Target.attachToTarget",
            &json!({"targetId": target.get("targetId"), "flatten": true}),
        )?;
        let session = attached.get("sessionId").and_then(Value::as_str);
        let session = session.context("Chromium gave no session for a tab")?;
        Page::new(self.pipe.clone(), session.to_owned(), look)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser may have ended already.
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn command(chromium: &Chromium, profile: &Path) -> Result<Command> {
    // Chromium reads commands from descriptor 3 and answers on 4.
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#, "sh"])
        .arg(&chromium.program)
        .args([
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            // No requests except those of the page.
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if geteuid().is_root() {
        command.arg("--no-sandbox");
    }
    chromium.environment(&mut command, profile)?;
    Ok(command)
}
