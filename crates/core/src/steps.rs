//! Steps: a bound on the work for one request.
//!
//! Whether several containers fit on the cards of a node is a packing problem, and some pods make it a hard one. Other
//! pods must not wait for such a pod, so its search counts steps and ends when they are used up. The count does not
//! depend on a clock, so it is the same on every machine.

use std::cell::Cell;

/// A number of steps that the search may use up. One step is a check of one card for one container.
///
/// A container that is the only one to ask for a class takes one step for each card. These steps are counted, but do
/// not reduce what is left.
#[derive(Debug)]
pub struct Steps {
    given: u32,
    left: Cell<u32>,
    /// All steps taken, including those that do not reduce what is left.
    counted: Cell<u64>,
}

impl Steps {
    /// For one request of the scheduler, for any number of nodes: a few times what an ordinary pod needs on 5,000 nodes
    /// of 8 cards, and a matter of milliseconds.
    pub const PER_REQUEST: u32 = 300_000;
    /// For one node: far more than a pod of a few containers needs, and a fraction of a millisecond.
    pub const PER_NODE: u32 = 10_000;

    pub fn new(number: u32) -> Self {
        Self {
            given: number,
            left: Cell::new(number),
            counted: Cell::new(0),
        }
    }

    pub fn for_request() -> Self {
        Self::new(Self::PER_REQUEST)
    }

    pub fn given(&self) -> u32 {
        self.given
    }

    pub fn left(&self) -> u32 {
        self.left.get()
    }

    pub fn are_used_up(&self) -> bool {
        self.left.get() == 0
    }

    /// How many steps were taken, whether or not they reduced what is left.
    pub fn taken(&self) -> u64 {
        self.counted.get()
    }

    /// Uses up one step; false if none is left.
    pub fn spend(&self) -> bool {
        self.spend_all(1)
    }

    /// Uses up this many steps; if fewer are left, uses up all of them and returns false.
    pub fn spend_all(&self, number: usize) -> bool {
        self.count(number);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let left = self.left.get().checked_sub(number);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Counts steps without reducing what is left.
    pub fn count(&self, number: usize) {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        self.counted.set(self.counted.get().saturating_add(number));
    }

    /// Runs the work with at most `most` of the remaining steps.
    pub fn within<T>(&self, most: u32, work: impl FnOnce() -> T) -> T {
        let kept = self.left.get().saturating_sub(most);
        self.left.set(self.left.get() - kept);
        let done = work();
        self.left.set(self.left.get() + kept);
        done
    }

    /// At most `most` of the remaining steps, for one part of the request; pass it to [`Self::settle`] afterwards.
    #[must_use]
    pub fn portion(&self, most: u32) -> Self {
        Self::new(most.min(self.left.get()))
    }

    /// Deducts and counts what was used of a portion.
    pub fn settle(&self, portion: &Self) {
        let used = portion.given - portion.left.get();
        self.left.set(self.left.get().saturating_sub(used));
        self.counted
            .set(self.counted.get().saturating_add(portion.counted.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_portion_uses_is_gone_and_the_rest_is_left() {
        let all = Steps::new(10);
        let part = all.portion(4);
        assert!(part.spend_all(3));
        all.settle(&part);
        assert_eq!((all.left(), all.taken()), (7, 3));
        assert_eq!(all.portion(100).given(), 7);
    }

    #[test]
    fn none_are_left_after_more_were_wanted_than_there_were() {
        let steps = Steps::new(2);
        assert!(!steps.spend_all(3));
        assert!(steps.are_used_up());
        assert!(!steps.spend());
    }

    #[test]
    fn work_within_a_number_leaves_the_rest() {
        let steps = Steps::new(10);
        let enough = steps.within(4, || steps.spend_all(5));
        assert_eq!((enough, steps.left()), (false, 6));
        assert!(steps.within(100, || steps.spend_all(6)));
        assert!(steps.are_used_up());
    }

    #[test]
    fn counting_uses_nothing_up() {
        let steps = Steps::new(2);
        steps.count(100);
        assert_eq!((steps.left(), steps.taken()), (2, 100));
    }
}
