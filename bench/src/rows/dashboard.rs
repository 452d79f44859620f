//! The dashboard at 5,000 nodes and 40,000 pods, in a real Chromium: when people first see the cluster, and whether the
//! page ever keeps them waiting.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gpushare_browser::{Browser, Chromium, Look, Page};
use serde_json::Value;

use super::Bench;
use crate::lab::Lab;
use crate::process::Dashboard;
use crate::report::{Limit, Row, Unit};

/// Pods that wait, and have to be explained.
const PENDING: usize = 200;
/// Nobody notices a shorter pause.
const LONGEST_MILLIS: f64 = 200.0;
/// How long the live page is looked on.
const LOOKING: Duration = Duration::from_secs(5);

const LOOK: Look = Look {
    width: 1440,
    height: 900,
    dark: false,
};

/// Notes every task of more than 50 ms from the first script on.
const OBSERVE: &str = "window.long = []; new PerformanceObserver((list) => \
    window.long.push(...list.getEntries().map((task) => task.duration))).observe({type: 'longtask', buffered: true})";

pub(crate) const BENCH: Bench = Bench {
    name: "dashboard",
    about: "the page at 5,000 nodes in Chromium: first sight, search and scrolling",
    run,
};

fn run(_lab: &mut Lab) -> Result<Vec<Row>> {
    let api = Lab::api(PENDING)?;
    let mut dashboard = Dashboard::start(&api.url())?;
    let address = dashboard.ready()?;
    let browser = Browser::start(&Chromium::find()?)?;
    let page = browser.open(LOOK)?;
    page.before_scripts(OBSERVE)?;
    let began = Instant::now();
    page.go(&format!("http://{address}/"))?;
    page.wait_for_text("5,000 nodes")?;
    let seen = began.elapsed();
    let painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
    let painted = page
        .eval(painted)?
        .as_f64()
        .context("nothing was painted")?;
    let mut long = used(&page)?;
    page.go(&format!("http://{address}/?list#/nodes"))?;
    page.wait_for_text("5,000 nodes")?;
    scroll_and_search(&page)?;
    thread::sleep(LOOKING);
    long.extend(used(&page)?);
    let longest = long.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        Row::new("dashboard: first paint", painted * 1e3, Unit::Microseconds),
        Row::new(
            "dashboard: the cluster is seen",
            seen.as_secs_f64() * 1e6,
            Unit::Microseconds,
        ),
        Row::new(
            "dashboard: longest task of the page",
            longest * 1e3,
            Unit::Microseconds,
        )
        .limit(Limit::AtMost(LONGEST_MILLIS * 1e3))
        .note(format!("{} tasks took more than 50 ms", long.len())),
        Row::new(
            "dashboard: resident memory",
            dashboard.resident_megabytes()?,
            Unit::Megabytes,
        ),
    ])
}

fn scroll_and_search(page: &Page) -> Result<()> {
    for at in (0..200_000).step_by(20_000) {
        page.eval(&format!(
            "document.querySelector('.tall').scrollTop = {at}; new Promise(requestAnimationFrame)"
        ))?;
    }
    page.eval("document.getElementById('search').focus()")?;
    for letter in "gpu-04321".chars() {
        page.type_text(&letter.to_string())?;
    }
    page.wait_for_text("1 of 5,000 nodes")
}

/// The long tasks of the page, in milliseconds.
fn used(page: &Page) -> Result<Vec<f64>> {
    let long = page.eval("window.long")?;
    let long = long.as_array().context("the page noted no tasks")?;
    Ok(long.iter().filter_map(Value::as_f64).collect())
}
