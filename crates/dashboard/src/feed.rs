//! The feed: what viewers have been sent, and what changed since, in numbered frames.
//!
//! A viewer that reconnects with the number of its last frame gets the frames after it. If these are no longer kept,
//! or another process has sent that frame, it gets a new snapshot. Rows are serialized once for all viewers.

mod rows;

use std::collections::VecDeque;
use std::sync::Arc;

use gpushare_core::NodeName;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::broadcast;

use crate::history::{History, Sample};
use crate::model::{Changes, Model};
use crate::view::{budgets, nodes, overview, pending};
use rows::{Rows, RowsChange, written};

/// Limits on the frames kept for viewers that return, by number and by size.
const MOST_FRAMES: usize = 240;
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// A viewer that lags by more frames gets a new snapshot.
const BUFFERED: usize = 64;

#[derive(Debug)]
pub(crate) struct Feed {
    /// Distinguishes this process from others.
    epoch: String,
    told: Mutex<Told>,
    frames: broadcast::Sender<Frame>,
}

/// What viewers are sent when something has changed.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    pub(crate) id: Arc<str>,
    pub(crate) text: Arc<str>,
}

/// What a viewer gets first.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// The frames that it has missed.
    Frames(Vec<Frame>),
    Snapshot(Frame),
}

#[derive(Debug, Default)]
struct Told {
    number: u64,
    overview: Option<Box<RawValue>>,
    nodes: Rows,
    pending: Rows,
    budgets: Rows,
    history: History,
    recent: VecDeque<Frame>,
    bytes: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot<'a> {
    id: &'a str,
    overview: &'a Option<Box<RawValue>>,
    nodes: Vec<&'a RawValue>,
    pending: Vec<&'a RawValue>,
    budgets: Vec<&'a RawValue>,
    history: &'a VecDeque<Sample>,
}

#[derive(Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    overview: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "RowsChange::is_empty")]
    nodes: RowsChange<'a>,
    /// Nodes of which something changed, in their row or in their details.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    touched: Vec<&'a str>,
    #[serde(skip_serializing_if = "RowsChange::is_empty")]
    pending: RowsChange<'a>,
    #[serde(skip_serializing_if = "RowsChange::is_empty")]
    budgets: RowsChange<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<Sample>,
}

impl Feed {
    pub(crate) fn new(epoch: String) -> Self {
        Self {
            epoch,
            told: Mutex::default(),
            frames: broadcast::channel(BUFFERED).0,
        }
    }

    pub(crate) fn viewers(&self) -> usize {
        self.frames.receiver_count()
    }

    /// Sends viewers what has changed. `now` is in seconds since 1970; takes a sample if `sample` is set.
    pub(crate) fn update(&self, model: &RwLock<Model>, now: i64, sample: bool) {
        let mut told = self.told.lock();
        let changes = model.write().take_changes();
        let first = told.overview.is_none();
        if !first && !sample && !changes.any() {
            return;
        }
        let delta = told.look(&model.read(), &changes, now, sample);
        let Some(delta) = delta.filter(|_| !first) else {
            return;
        };
        let frame = self.number(&mut told, delta.into());
        told.keep(frame.clone());
        let _nobody_looks = self.frames.send(frame);
    }

    /// Everything, as of the last update.
    pub(crate) fn snapshot(&self) -> Frame {
        self.whole(&self.told.lock())
    }

    /// What a viewer gets first, and a receiver for all frames after it.
    pub(crate) fn subscribe(&self, last: Option<&str>) -> (Beginning, broadcast::Receiver<Frame>) {
        let told = self.told.lock();
        let frames = self.frames.subscribe();
        let missed = last
            .and_then(|last| last.strip_prefix(&self.epoch)?.strip_prefix('.'))
            .and_then(|last| told.after(last.parse().ok()?));
        let beginning = match missed {
            Some(frames) => Beginning::Frames(frames),
            None => Beginning::Snapshot(self.whole(&told)),
        };
        (beginning, frames)
    }

    fn number(&self, told: &mut Told, text: Arc<str>) -> Frame {
        told.number += 1;
        Frame {
            number: told.number,
            id: self.id(told.number),
            text,
        }
    }

    fn id(&self, number: u64) -> Arc<str> {
        format!("{}.{number}", self.epoch).into()
    }

    fn whole(&self, told: &Told) -> Frame {
        let id = self.id(told.number);
        let snapshot = Snapshot {
            id: &id,
            overview: &told.overview,
            nodes: told.nodes.all(),
            pending: told.pending.all(),
            budgets: told.budgets.all(),
            history: told.history.samples(),
        };
        Frame {
            number: told.number,
            text: serde_json::to_string(&snapshot).unwrap_or_default().into(),
            id,
        }
    }
}

impl Told {
    /// Takes over what changed; returns the text of a frame if viewers would see any of it.
    fn look(&mut self, model: &Model, changes: &Changes, now: i64, sample: bool) -> Option<String> {
        let overview = overview::overview(model);
        let sample = sample.then(|| Sample::new(now, &overview));
        self.history.budgets_at(model, now);
        let overview = written(&overview)
            .filter(|new| self.overview.as_ref().map(|old| old.get()) != Some(new.get()));
        let rows = changes
            .nodes
            .iter()
            .map(|name| (name.as_str(), nodes::row(model, name)));
        let node_keys = self.nodes.set(rows);
        let pending_keys = if changes.pending {
            self.pending.replace(&pending::rows(model))
        } else {
            Vec::new()
        };
        let mut budget_rows = budgets::rows(model);
        for (name, row) in &mut budget_rows {
            row.points = self.history.budget(name).to_vec();
        }
        let budget_keys = self.budgets.replace(&budget_rows);
        if let Some(sample) = sample {
            self.history.add(sample);
        }
        if let Some(new) = &overview {
            self.overview = Some(new.clone());
        }
        let quiet = overview.is_none()
            && changes.nodes.is_empty()
            && pending_keys.is_empty()
            && budget_keys.is_empty()
            && sample.is_none();
        if quiet {
            return None;
        }
        let delta = Delta {
            overview: overview.as_deref(),
            nodes: self.nodes.change(&node_keys),
            touched: changes.nodes.iter().map(NodeName::as_str).collect(),
            pending: self.pending.change(&pending_keys),
            budgets: self.budgets.change(&budget_keys),
            sample,
        };
        serde_json::to_string(&delta).ok()
    }

    fn keep(&mut self, frame: Frame) {
        self.bytes += frame.text.len();
        self.recent.push_back(frame);
        while self.recent.len() > MOST_FRAMES || self.bytes > MOST_BYTES {
            let Some(oldest) = self.recent.pop_front() else {
                return;
            };
            self.bytes = self.bytes.saturating_sub(oldest.text.len());
        }
    }

    /// The frames after that number, if all of them are still kept.
    fn after(&self, number: u64) -> Option<Vec<Frame>> {
        let frames: Vec<Frame> = self
            .recent
            .iter()
            .filter(|frame| frame.number > number)
            .cloned()
            .collect();
        let missed = self.number.checked_sub(number)?;
        (u64::try_from(frames.len()) == Ok(missed)).then_some(frames)
    }
}

impl History {
    fn budgets_at(&mut self, model: &Model, now: i64) {
        for (name, budget) in model.budgets() {
            if let Some(remaining) = budgets::remaining(budget) {
                self.note_budget(name, now, remaining);
            }
        }
        self.keep_budgets(|name| model.budgets().contains_key(name));
    }
}

#[cfg(test)]
mod tests;
