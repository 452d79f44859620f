//! How long the extender takes from its start until it answers, and how much memory it then holds.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::lab::Lab;
use crate::measure::median;
use crate::objects::{NODES, PODS};
use crate::process::{Extender, itself};
use crate::report::{Limit, Row, Unit};

const TURNS: usize = 5;

pub(super) fn run(_lab: &mut Lab) -> Result<Vec<Row>> {
    let api = Lab::api(0)?;
    let (mut starts, mut lists) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        starts.push(Extender::start(&api.url())?.ready()?);
        lists.push(bare_list(&api.url())?);
    }
    let mut extender = Extender::start(&api.url())?;
    extender.ready()?;
    extender.binds_open()?;
    let (resident, peak) = (extender.resident_megabytes()?, extender.peak_megabytes()?);
    Ok(vec![
        Row::time("start to Ready", median(starts)?, median(lists)?).limit(Limit::RatioAtMost(2.0)),
        Row::new("resident memory after start", resident, Unit::Megabytes)
            .limit(Limit::AtMost(200.0)),
        Row::new("peak of resident memory", peak, Unit::Megabytes).limit(Limit::AtMost(200.0)),
    ])
}

/// A process that lists and decodes the same objects with the same client, and keeps nothing.
pub(super) fn bare_list(url: &str) -> Result<Duration> {
    let began = Instant::now();
    let output = itself()?
        .args(["list", "--url", url])
        .stderr(Stdio::inherit())
        .output()?;
    let took = began.elapsed();
    let counted = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(
        counted == format!("{NODES} {PODS}"),
        "the bare list found {counted:?} nodes and pods"
    );
    Ok(took)
}
