//! A browser tab: navigation, evaluation, screenshots.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::pipe::Pipe;

const DEADLINE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// How large a tab is, and what its user prefers.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub width: u32,
    pub height: u32,
    pub dark: bool,
}

#[derive(Debug)]
pub struct Page {
    pipe: Arc<Pipe>,
    session: String,
}

impl Page {
    pub(crate) fn new(pipe: Arc<Pipe>, session: String, look: Look) -> Result<Self> {
        let page = Self { pipe, session };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            page.call(&format!("{domain}.enable"), &json!({}))?;
        }
        let Look {
            width,
            height,
            dark,
        } = look;
        page.call(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        )?;
        let scheme = if dark { "dark" } else { "light" };
        page.call(
            "Emulation.setEmulatedMedia",
            &json!({"features": [
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ]}),
        )?;
        Ok(page)
    }

    pub fn call(&self, method: &str, params: &Value) -> Result<Value> {
        self.pipe.call(Some(&self.session), method, params)
    }

    pub fn go(&self, url: &str) -> Result<()> {
        let answer = self.call("Page.navigate", &json!({"url": url}))?;
        match answer.get("errorText").and_then(Value::as_str) {
            Some(error) => bail!("cannot open {url}: {error}"),
            None => Ok(()),
        }
    }

    /// Runs a script before all other scripts of every page that is opened from now on.
    pub fn before_scripts(&self, script: &str) -> Result<()> {
        let source = json!({"source": script});
        self.call("Page.addScriptToEvaluateOnNewDocument", &source)?;
        Ok(())
    }

    /// The value of an expression; a promise is awaited.
    pub fn eval(&self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &params)?;
        if let Some(details) = answer.get("exceptionDetails") {
            bail!("{expression} failed: {details}");
        }
        Ok(answer.pointer("/result/value").cloned().unwrap_or_default())
    }

    /// Waits until the expression is true.
    pub fn wait(&self, expression: &str) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            // A page that is just being left cannot evaluate anything.
            if self.eval(expression).unwrap_or_default() == json!(true) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let text = self.eval("document.body.innerText").unwrap_or_default();
                bail!("it did not become true that {expression}; the page reads {text}");
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Waits until the page shows this text.
    pub fn wait_for_text(&self, text: &str) -> Result<()> {
        self.wait(&format!(
            "document.body.innerText.includes({})",
            json!(text)
        ))
    }

    /// Presses and releases a key, as a user would.
    pub fn press(&self, key: &str) -> Result<()> {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let down = json!({
            "type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code
        });
        self.call("Input.dispatchKeyEvent", &down)?;
        let up = json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", &up)?;
        Ok(())
    }

    pub fn type_text(&self, text: &str) -> Result<()> {
        self.call("Input.insertText", &json!({"text": text}))?;
        Ok(())
    }

    /// Writes a screenshot of the tab, as a PNG.
    pub fn screenshot(&self, file: &Path) -> Result<()> {
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png"}))?;
        let data = answer.get("data").and_then(Value::as_str);
        let data = data.context("Chromium sent no picture")?;
        let png = STANDARD.decode(data).context("the picture is no base64")?;
        fs::write(file, png).with_context(|| format!("cannot write {}", file.display()))
    }

    /// The addresses that were requested since the last call.
    pub fn requests(&self) -> Vec<String> {
        let events = self
            .pipe
            .take_events(&self.session, "Network.requestWillBeSent");
        let url = |event: &Value| Some(event.pointer("/request/url")?.as_str()?.to_owned());
        events.iter().filter_map(url).collect()
    }

    /// What the browser reported: violations of the page's policy, scripts that failed.
    pub fn complaints(&self) -> Vec<String> {
        let mut all = self.pipe.take_events(&self.session, "Log.entryAdded");
        all.extend(
            self.pipe
                .take_events(&self.session, "Runtime.exceptionThrown"),
        );
        all.iter().map(ToString::to_string).collect()
    }
}
