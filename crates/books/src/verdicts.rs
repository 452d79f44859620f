//! Verdicts: whether each node can take a request, kept for other pods with an equal request.
//!
//! A pod that fits nowhere rarely waits alone, and the scheduler asks about all nodes at every try. Between two tries
//! few nodes change, and only those are judged again. The answer is the one that the ledger would give.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use gpushare_core::ledger::Bookmark;
use gpushare_core::{NodeName, PodAsk, Why};
use parking_lot::Mutex;

use crate::nodes::Nodes;
use crate::reasons::Reasons;

/// Requests for which verdicts are kept, about half a megabyte each in a cluster of 5,000 nodes.
const KEPT: usize = 8;
/// Requests of several containers, which take longest to judge, are kept separately, so that neither kind displaces
/// the other. More of them are kept, about eight megabytes in all: such a request may be judged in several tries, and
/// what one try has found out must last until the next.
const KEPT_COMPLEX: usize = 16;
/// How many more nodes or reasons than there are nodes a sheet may hold. A larger sheet has collected deleted nodes
/// or unused reasons, and is dropped.
const SLACK: usize = 256;

/// Verdicts for the most recent requests. They have a lock of their own, because callers only read the books.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    /// The one used last is at the end.
    kept: Vec<Sheet>,
    kept_complex: Vec<Sheet>,
}

/// The verdicts on one request.
#[derive(Debug)]
struct Sheet {
    ask: PodAsk,
    read: Bookmark,
    /// In the order in which they were first asked about, which seldom changes.
    nodes: Vec<Line>,
    places: HashMap<NodeName, usize, RandomState>,
    reasons: Reasons,
}

#[derive(Debug)]
struct Line {
    node: NodeName,
    verdict: Option<Verdict>,
}

/// The place of the reason; `None` if the pod fits.
pub type Verdict = Option<usize>;

impl Verdicts {
    /// For each of these nodes, why it cannot take a pod with this request. Valid only for pods for which the ledger
    /// holds nothing.
    pub(crate) fn on<'n>(
        &self,
        nodes: &Nodes,
        ask: &PodAsk,
        names: impl Iterator<Item = &'n str>,
        judge: impl Fn(&str) -> Option<Why>,
    ) -> (Vec<Verdict>, Reasons) {
        // The lock is not held while judging, which may take a while: other requests have their own sheets.
        let kept = self.0.lock().take(ask);
        let sheet = kept.and_then(|sheet| sheet.caught_up(nodes));
        let mut sheet = sheet.unwrap_or_else(|| Sheet::new(nodes, ask));
        let mut next = 0;
        let each = names.map(|name| sheet.verdict(nodes, name, &mut next, &judge));
        let judged = (each.collect(), sheet.reasons.written());
        self.0.lock().put(sheet);
        judged
    }
}

impl Shelves {
    /// Where the sheets of such requests are kept, and how many at most.
    fn shelf(&mut self, ask: &PodAsk) -> (&mut Vec<Sheet>, usize) {
        if ask.is_complex() {
            (&mut self.kept_complex, KEPT_COMPLEX)
        } else {
            (&mut self.kept, KEPT)
        }
    }

    fn take(&mut self, ask: &PodAsk) -> Option<Sheet> {
        let (kept, _) = self.shelf(ask);
        let place = kept.iter().position(|sheet| sheet.ask == *ask)?;
        Some(kept.remove(place))
    }

    fn put(&mut self, sheet: Sheet) {
        let (kept, most) = self.shelf(&sheet.ask);
        // Another thread may have judged an equal pod meanwhile.
        kept.retain(|other| other.ask != sheet.ask);
        if kept.len() == most {
            kept.remove(0);
        }
        kept.push(sheet);
    }
}

impl Sheet {
    fn new(nodes: &Nodes, ask: &PodAsk) -> Self {
        Self {
            ask: ask.clone(),
            read: nodes.ledger().bookmark(),
            nodes: Vec::new(),
            places: HashMap::default(),
            reasons: Reasons::default(),
        }
    }

    /// The sheet without verdicts that may be outdated; `None` if it must be built again.
    fn caught_up(mut self, nodes: &Nodes) -> Option<Self> {
        let most = nodes.count() + SLACK;
        if self.nodes.len() > most || self.reasons.count() > most {
            return None;
        }
        for node in nodes.ledger().changed_since(self.read)? {
            let line = self.places.get(node).and_then(|at| self.nodes.get_mut(*at));
            if let Some(line) = line {
                line.verdict = None;
            }
        }
        self.read = nodes.ledger().bookmark();
        Some(self)
    }

    /// `next` is the place at which the name is expected: after the previous name.
    fn verdict(
        &mut self,
        nodes: &Nodes,
        name: &str,
        next: &mut usize,
        judge: &impl Fn(&str) -> Option<Why>,
    ) -> Verdict {
        let expected = self.nodes.get(*next);
        let place = if expected.is_some_and(|line| line.node.as_str() == name) {
            Some(*next)
        } else {
            self.places.get(name).copied()
        };
        if let Some(place) = place {
            *next = place + 1;
            let known = self.nodes.get(place).and_then(|line| line.verdict);
            if let Some(verdict) = known {
                return verdict;
            }
        }
        let why = judge(name);
        let finished = !why.as_ref().is_some_and(Why::is_unfinished);
        let verdict = why.map(|why| self.reasons.place_of(why));
        // An unfinished verdict is not kept: the next try continues here.
        if !finished {
            return verdict;
        }
        if let Some(line) = place.and_then(|place| self.nodes.get_mut(place)) {
            line.verdict = Some(verdict);
        } else if let Some(node) = nodes.get(name) {
            // Only known nodes are kept: a request can contain invented names.
            self.places.insert(node.clone(), self.nodes.len());
            self.nodes.push(Line {
                node: node.clone(),
                verdict: Some(verdict),
            });
            *next = self.nodes.len();
        }
        verdict
    }
}

#[cfg(test)]
mod tests;
