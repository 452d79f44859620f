//! A set of nodes by their numbers, one bit per node, because thousands of waiting pods each have such a set.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet(Vec<u64>);

const BITS: u32 = u64::BITS;

impl NodeSet {
    pub(crate) fn insert(&mut self, number: u32) {
        let (word, bit) = split(number);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= bit;
        }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        let (word, bit) = split(number);
        if let Some(bits) = self.0.get_mut(word) {
            *bits &= !bit;
        }
    }

    pub fn contains(&self, number: u32) -> bool {
        let (word, bit) = split(number);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }
}

fn split(number: u32) -> (usize, u64) {
    let word = usize::try_from(number / BITS).unwrap_or(usize::MAX);
    (word, 1 << (number % BITS))
}

impl FromIterator<u32> for NodeSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut set = Self::default();
        for number in numbers {
            set.insert(number);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_not_taken_out() {
        let mut set: NodeSet = [0, 63, 64, 5000].into_iter().collect();
        set.remove(64);
        set.remove(100_000);
        let held: Vec<u32> = (0..6000).filter(|number| set.contains(*number)).collect();
        assert_eq!(held, [0, 63, 5000]);
    }
}
