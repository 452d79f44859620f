//! The dashboard at 5,000 nodes and 40,000 pods, in a real Chromium: when users first see the cluster, and whether the
//! page ever makes them wait.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gpushare_browser::{Browser, Chromium, Look, Page};
use serde_json::Value;

use crate::client::{Connection, Request};
use crate::lab::Lab;
use crate::objects;
use crate::process::Dashboard;
use crate::report::{Limit, Row, Unit};

/// Waiting pods, which have to be explained. They are placed one after the other while the page is open.
const PENDING: usize = 200;
/// Users do not notice a shorter pause.
const LONGEST_MILLIS: f64 = 200.0;
/// Time between two pods that are placed.
const BETWEEN: Duration = Duration::from_millis(25);

pub(super) const LOOK: Look = Look {
    width: 1440,
    height: 900,
    dark: false,
};

/// Records every task of more than 50 ms, from the first script on.
const OBSERVE: &str = "window.long = []; new PerformanceObserver((list) => \
    window.long.push(...list.getEntries().map((task) => task.duration))).observe({type: 'longtask', buffered: true})";

/// The size of the first answer, compressed and uncompressed.
const FIRST_ANSWER: &str = "(() => { const answer = performance.getEntriesByType('resource')\
    .find((entry) => entry.name.endsWith('/api/snapshot')); \
    return [answer.encodedBodySize, answer.decodedBodySize]; })()";

pub(super) fn run(_lab: &mut Lab) -> Result<Vec<Row>> {
    let api = Lab::api(PENDING)?;
    let mut dashboard = Dashboard::start(&api.url())?;
    let address = dashboard.ready()?;
    let browser = Browser::start(&Chromium::find()?)?;
    let page = browser.open(LOOK)?;
    page.before_scripts(OBSERVE)?;
    let sight = FirstSight::of(&page, &format!("http://{address}/"), "5,000 nodes")?;
    let [sent, read] = first_answer(&page)?;
    let mut long = used(&page)?;
    page.go(&format!("http://{address}/?list#/nodes"))?;
    page.wait_for_text("5,000 nodes")?;
    search(&page)?;
    look_on(&page, api.address)?;
    long.extend(used(&page)?);
    let longest = long.iter().copied().fold(0.0, f64::max);
    let too_long = long.iter().filter(|&&task| task > LONGEST_MILLIS).count();
    Ok(vec![
        Row::new("dashboard: first paint", sight.painted, Unit::Microseconds),
        Row::new(
            "dashboard: the cluster is seen",
            sight.seen,
            Unit::Microseconds,
        )
        .note(format!(
            "the first answer has {:.0} kB, compressed {:.0} kB",
            read / 1e3,
            sent / 1e3
        )),
        Row::new(
            "dashboard: longest task of the page",
            longest * 1e3,
            Unit::Microseconds,
        )
        .limit(Limit::AtMost(LONGEST_MILLIS * 1e3))
        .note(format!(
            "{} tasks took more than 50 ms, {too_long} of them more than {LONGEST_MILLIS} ms: loading, searching, \
             scrolling, and {PENDING} pods that are placed meanwhile",
            long.len()
        )),
        Row::new(
            "dashboard: resident memory",
            dashboard.resident_megabytes()?,
            Unit::Megabytes,
        ),
    ])
}

/// How long after opening the page a user sees anything, and how long until the cluster; in microseconds.
pub(super) struct FirstSight {
    pub(super) painted: f64,
    pub(super) seen: f64,
}

impl FirstSight {
    pub(super) fn of(page: &Page, url: &str, cluster: &str) -> Result<Self> {
        let began = Instant::now();
        page.go(url)?;
        page.wait_for_text(cluster)?;
        let seen = began.elapsed().as_secs_f64() * 1e6;
        let painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        let painted = page.eval(painted)?.as_f64();
        let painted = painted.context("nothing was painted")? * 1e3;
        Ok(Self { painted, seen })
    }
}

fn search(page: &Page) -> Result<()> {
    page.eval("document.getElementById('search').focus()")?;
    for letter in "gpu-04321".chars() {
        page.type_text(&letter.to_string())?;
    }
    page.wait_for_text("1 of 5,000 nodes")?;
    let clear = "(() => { const search = document.getElementById('search'); search.value = ''; \
        search.dispatchEvent(new Event('input')); return document.querySelectorAll('tbody tr').length > 5; })()";
    ensure!(page.eval(clear)? == Value::Bool(true), "the list is empty");
    Ok(())
}

/// Scrolls through the list, and then shows the overview, while pods are placed on nodes all over the cluster.
fn look_on(page: &Page, api: SocketAddr) -> Result<()> {
    let mut connection = Connection::open(api)?;
    for number in 0..PENDING {
        if number == PENDING / 2 {
            page.eval("location.hash = '#/'")?;
            page.wait_for_text("Packing over time")?;
        }
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/binding",
            objects::NAMESPACE,
            objects::pending_name(number)
        );
        let binding = objects::binding(number)?.to_string();
        connection.send(&Request::post(&path, "", binding.as_bytes()))?;
        let at = number * 2_000;
        page.eval(&format!(
            "document.querySelector('.tall')?.scrollTo(0, {at}); new Promise(requestAnimationFrame)"
        ))?;
        thread::sleep(BETWEEN);
    }
    // All pods have been placed.
    page.wait("document.getElementById('pending-count').hidden")
}

fn first_answer(page: &Page) -> Result<[f64; 2]> {
    let sizes = page.eval(FIRST_ANSWER)?;
    let size = |at: usize| sizes.get(at).and_then(Value::as_f64);
    let (sent, read) = (size(0), size(1));
    Ok([
        sent.context("the first answer has no size")?,
        read.context("the first answer has no size")?,
    ])
}

/// The long tasks of the page, in milliseconds.
fn used(page: &Page) -> Result<Vec<f64>> {
    let long = page.eval("window.long")?;
    let long = long.as_array().context("the page noted no tasks")?;
    Ok(long.iter().filter_map(Value::as_f64).collect())
}
