//! Sets of cards: every way to choose a number of cards of each class, the most promising first.

/// Calls `visit` with every combination of `sizes[i]` members of each `groups[i]`, until it returns
/// false. The first combination takes the first members of each group.
pub(super) fn each_set(
    groups: &[Vec<usize>],
    sizes: &[usize],
    visit: &mut impl FnMut(&[usize]) -> bool,
) {
    let mut chosen = Vec::new();
    extend(groups, sizes, &mut chosen, visit);
}

fn extend(
    groups: &[Vec<usize>],
    sizes: &[usize],
    chosen: &mut Vec<usize>,
    visit: &mut impl FnMut(&[usize]) -> bool,
) -> bool {
    match (groups.split_first(), sizes.split_first()) {
        (Some((group, groups)), Some((size, sizes))) => take(group, *size, chosen, &mut |chosen| {
            extend(groups, sizes, chosen, visit)
        }),
        _ => visit(chosen),
    }
}

/// Adds `missing` members to `chosen` in every possible way.
fn take(
    members: &[usize],
    missing: usize,
    chosen: &mut Vec<usize>,
    then: &mut dyn FnMut(&mut Vec<usize>) -> bool,
) -> bool {
    if missing == 0 {
        return then(chosen);
    }
    for (at, member) in members.iter().enumerate() {
        let rest = members.get(at + 1..).unwrap_or_default();
        if rest.len() + 1 < missing {
            return true;
        }
        chosen.push(*member);
        let go_on = take(rest, missing - 1, chosen, then);
        chosen.pop();
        if !go_on {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(groups: &[Vec<usize>], sizes: &[usize]) -> Vec<Vec<usize>> {
        let mut sets = Vec::new();
        each_set(groups, sizes, &mut |set| {
            sets.push(set.to_vec());
            true
        });
        sets
    }

    #[test]
    fn every_set_comes_once_and_the_first_members_first() {
        let sets = all(&[vec![3, 1, 2]], &[2]);
        assert_eq!(sets, [[3, 1], [3, 2], [1, 2]]);
    }

    #[test]
    fn classes_are_combined() {
        let sets = all(&[vec![0, 1], vec![7]], &[1, 1]);
        assert_eq!(sets, [[0, 7], [1, 7]]);
        assert!(all(&[vec![0], vec![]], &[1, 1]).is_empty());
    }

    #[test]
    fn the_visitor_can_stop() {
        let mut seen = 0;
        each_set(&[(0..10).collect()], &[3], &mut |_| {
            seen += 1;
            seen < 4
        });
        assert_eq!(seen, 4);
    }
}
