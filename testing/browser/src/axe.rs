//! axe-core, the accessibility checker, from its npm package.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{Page, npm};

/// The version with which the findings were reviewed.
const VERSION: &str = "4.14.0";

/// The checker's script.
pub fn script() -> Result<String> {
    let file = npm::package("axe-core", VERSION)?.join("axe.min.js");
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// Serious accessibility problems of the page, each in one line.
pub fn findings(page: &Page, script: &str) -> Result<Vec<String>> {
    // Loaded once for a page. Returns `true`, because the script's own value would be large.
    page.eval(&format!("if (!window.axe) {{ {script} }}; true"))?;
    let found = page.eval(
        "axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations
            .filter((found) => ['serious', 'critical'].includes(found.impact))
            .flatMap((found) => found.nodes.map((node) => `${found.id}: ${node.html} ${node.failureSummary}`)))",
    )?;
    let found = found.as_array().context("axe-core gave no list")?;
    let line = |one: &Value| one.as_str().unwrap_or_default().to_owned();
    Ok(found.iter().map(line).collect())
}
