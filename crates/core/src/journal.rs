//! The journal: which nodes have changed lately, for whoever keeps something drawn from them.

use std::collections::VecDeque;

/// Changes remembered; whoever is further behind looks at every node again.
const REMEMBERED: usize = 1_024;

/// By whatever its keeper calls nodes.
#[derive(Clone, Debug)]
pub struct Journal<N> {
    /// Counts whatever concerns all nodes.
    edition: u64,
    /// The nodes that changed since the edition appeared.
    changed: VecDeque<N>,
    /// How many were forgotten before those.
    forgotten: u64,
}

/// How far somebody has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bookmark {
    edition: u64,
    read: u64,
}

impl<N> Default for Journal<N> {
    fn default() -> Self {
        Self {
            edition: 0,
            changed: VecDeque::new(),
            forgotten: 0,
        }
    }
}

impl<N> Journal<N> {
    /// Everything that was drawn from the nodes is worthless now.
    pub fn begin_edition(&mut self) {
        self.edition += 1;
        self.changed.clear();
        self.forgotten = 0;
    }

    pub fn enter(&mut self, node: N) {
        if self.changed.len() == REMEMBERED {
            self.changed.pop_front();
            self.forgotten += 1;
        }
        self.changed.push_back(node);
    }

    pub fn end(&self) -> Bookmark {
        Bookmark {
            edition: self.edition,
            read: self.forgotten + self.changed.len() as u64,
        }
    }

    /// The nodes that changed after the bookmark; nothing when all may have.
    pub fn since(&self, bookmark: Bookmark) -> Option<impl Iterator<Item = &N>> {
        if bookmark.edition != self.edition {
            return None;
        }
        let skip = bookmark.read.checked_sub(self.forgotten)?;
        let skip = usize::try_from(skip).ok()?;
        Some(self.changed.iter().skip(skip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(journal: &Journal<usize>, bookmark: Bookmark) -> Option<Vec<usize>> {
        let nodes = journal.since(bookmark)?;
        Some(nodes.copied().collect())
    }

    #[test]
    fn a_reader_gets_what_was_entered_after_it_read() {
        let mut journal = Journal::default();
        let begin = journal.end();
        journal.enter(7);
        let middle = journal.end();
        journal.enter(3);
        assert_eq!(since(&journal, begin), Some(vec![7, 3]));
        assert_eq!(since(&journal, middle), Some(vec![3]));
        assert_eq!(since(&journal, journal.end()), Some(vec![]));
    }

    #[test]
    fn a_reader_of_an_old_edition_or_too_far_behind_gets_nothing() {
        let mut journal = Journal::default();
        let old = journal.end();
        journal.begin_edition();
        assert_eq!(since(&journal, old), None);
        let behind = journal.end();
        for node in 0..=REMEMBERED {
            journal.enter(node);
        }
        assert_eq!(since(&journal, behind), None);
        journal.enter(5);
        let last = Bookmark {
            read: journal.end().read - 1,
            ..journal.end()
        };
        assert_eq!(since(&journal, last), Some(vec![5]));
    }
}
