//! The recent past of the cluster: periodic samples, and what budgets had left whenever that changed. Bounded.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::view::Level;
use crate::view::overview::Overview;

/// An hour at the usual interval of 10 s.
const MOST_SAMPLES: usize = 360;
/// For each budget. When there are more, every second one of the older points is removed.
const MOST_POINTS: usize = 240;

/// The cluster at one moment; levels in tenths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sample {
    /// In seconds since 1970.
    time: i64,
    memory: u64,
    core: u64,
    /// The part of the free memory that pods of the usual size could use.
    usable: u64,
    pods: usize,
    pending: usize,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    samples: VecDeque<Sample>,
    budgets: BTreeMap<String, Vec<(i64, i64)>>,
}

impl Sample {
    pub(crate) fn new(time: i64, overview: &Overview) -> Self {
        let permille = |Level { used, size }| {
            let permille = u128::from(used) * 1000 / u128::from(size).max(1);
            u64::try_from(permille).unwrap_or(0)
        };
        let all = &overview.all;
        Self {
            time,
            memory: permille(all.memory),
            core: permille(all.core),
            usable: permille(all.idle),
            pods: overview.pods,
            pending: overview.pending,
        }
    }
}

impl History {
    pub(crate) fn add(&mut self, sample: Sample) {
        if self.samples.len() >= MOST_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    pub(crate) fn samples(&self) -> &VecDeque<Sample> {
        &self.samples
    }

    /// Records what remains of a budget if it differs from the last point.
    pub(crate) fn note_budget(&mut self, name: &str, time: i64, remaining: i64) {
        let points = self.budgets.entry(name.to_owned()).or_default();
        if points.last().is_some_and(|(_, last)| *last == remaining) {
            return;
        }
        points.push((time, remaining));
        if points.len() > MOST_POINTS {
            let mut at = 0;
            points.retain(|_| {
                at += 1;
                at % 2 == 0 || at > MOST_POINTS
            });
        }
    }

    pub(crate) fn budget(&self, name: &str) -> &[(i64, i64)] {
        self.budgets.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn keep_budgets(&mut self, there: impl Fn(&str) -> bool) {
        self.budgets.retain(|name, _| there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time: i64) -> Sample {
        Sample::new(time, &Overview::default())
    }

    #[test]
    fn the_oldest_samples_go_when_there_are_too_many() {
        let mut history = History::default();
        for time in 0..1000 {
            history.add(sample(time));
        }
        assert_eq!(history.samples().len(), MOST_SAMPLES);
        assert_eq!(history.samples().back(), Some(&sample(999)));
        assert_eq!(history.samples().front(), Some(&sample(640)));
    }

    #[test]
    fn a_budget_keeps_its_newest_point_and_a_bounded_past() {
        let mut history = History::default();
        for time in 0..10_000 {
            history.note_budget("team", time, -time);
        }
        let points = history.budget("team");
        assert!(points.len() <= MOST_POINTS, "{}", points.len());
        assert_eq!(points.last(), Some(&(9999, -9999)));
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
        history.keep_budgets(|name| name != "team");
        assert!(history.budget("team").is_empty());
    }

    #[test]
    fn an_unchanged_budget_is_one_point() {
        let mut history = History::default();
        history.note_budget("team", 1, 50);
        history.note_budget("team", 2, 50);
        assert_eq!(history.budget("team"), [(1, 50)]);
    }
}
