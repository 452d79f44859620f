//! The journal: which nodes have changed lately, for callers that keep data derived from nodes.

use std::collections::VecDeque;

/// Changes remembered; a reader that is further behind must look at every node again.
const REMEMBERED: usize = 1_024;

/// `N` is how the owner of the journal identifies nodes.
#[derive(Clone, Debug)]
pub struct Journal<N> {
    /// Counts the changes that concern all nodes.
    edition: u64,
    /// The nodes that changed since the edition began.
    changed: VecDeque<N>,
    /// How many earlier changes of this edition were forgotten.
    forgotten: u64,
}

/// How far a reader has read.
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
    /// Invalidates everything that was derived from the nodes.
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

    /// The nodes that changed after the bookmark; `None` if any node may have changed.
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
