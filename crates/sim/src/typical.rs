//! The typical pods of a trace, as the published simulator counts them.
//!
//! Fragmentation gradient descent was published with its typical pods known in advance: the most
//! frequent requests that make up 95 % of the whole trace. Requests that spell the same models
//! differently count separately there, and ties go to the larger request; both affect which requests
//! are typical.

use std::collections::BTreeMap;

use crate::trace::Pod;

/// The part of all pods that the typical pods make up, in percent.
const TYPICAL: usize = 95;

/// Typical pods and how often each occurs.
pub fn pods(all: &[Pod]) -> Vec<(&Pod, i64)> {
    let mut counts: BTreeMap<(i64, i64, u32, String), (usize, &Pod)> = BTreeMap::new();
    for pod in all {
        let key = (pod.cpu, pod.milli, pod.cards, pod.models.join("|"));
        counts.entry(key).or_insert((0, pod)).0 += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|(a, (times_a, _)), (b, (times_b, _))| (times_b, b).cmp(&(times_a, a)));
    let mut covered = 0;
    counts
        .into_iter()
        .take_while(|(_, (times, _))| {
            let enough = covered * 100 >= all.len() * TYPICAL;
            covered += times;
            !enough
        })
        .map(|(_, (times, pod))| (pod, i64::try_from(times).unwrap_or(0)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cpu: i64, models: &[&str]) -> Pod {
        Pod {
            name: String::new(),
            cpu,
            memory: 0,
            cards: 1,
            milli: 500,
            models: models.iter().map(|model| (*model).to_owned()).collect(),
        }
    }

    #[test]
    fn the_most_frequent_requests_count_until_the_limit_is_reached() {
        let mut all = vec![pod(1, &[]); 90];
        all.extend(vec![pod(2, &[]); 6]);
        all.extend(vec![pod(3, &[]); 4]);
        let typical: Vec<(i64, i64)> = pods(&all)
            .iter()
            .map(|(pod, times)| (pod.cpu, *times))
            .collect();
        assert_eq!(typical, [(1, 90), (2, 6)]);
    }

    #[test]
    fn models_spelt_differently_count_apart_and_ties_go_to_the_larger() {
        let mut all = vec![pod(1, &["A"]); 10];
        all.extend(vec![pod(1, &["A", "A"]); 10]);
        all.push(pod(9, &[]));
        let typical: Vec<usize> = pods(&all).iter().map(|(pod, _)| pod.models.len()).collect();
        assert_eq!(typical, [2, 1]);
    }
}
