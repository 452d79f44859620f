//! Prioritize: the node whose best card keeps least free comes first, so that pods fill cards and whole
//! cards stay whole.
//!
//! Scores are ranks, not amounts: the best node is alone at the top, and equal nodes are ranked by
//! name. kube-scheduler chooses at random among equal scores, which would scatter equal pods.

use std::collections::HashMap;

use gpushare_core::Amounts;
use gpushare_kube::convert::PodFacts;

use super::state::State;
use super::wire::{Candidates, HostPriority};

/// The highest score that kube-scheduler understands from an extender.
const BEST: i64 = 10;

pub(super) fn prioritize<'a>(
    state: &State,
    pod: &PodFacts,
    candidates: &'a Candidates<'a>,
) -> Vec<HostPriority<'a>> {
    let mut ranked: Vec<(Amounts, &str)> = match &pod.ask {
        Ok(Some(ask)) => {
            let search = state.ledger().search(ask);
            let left = |name: &str| state.ledger().left(name, &pod.uid, &search);
            let names = candidates.names();
            let fitting = names.filter_map(|name| Some((left(name)?, name)));
            fitting.collect()
        }
        _ => Vec::new(),
    };
    ranked.sort_unstable();
    let ranks = (0..=BEST).rev().chain(std::iter::repeat(0));
    let scores: HashMap<&str, i64> = ranked
        .into_iter()
        .map(|(_, name)| name)
        .zip(ranks)
        .collect();
    candidates
        .names()
        .map(|host| HostPriority {
            host,
            score: scores.get(host).copied().unwrap_or(0),
        })
        .collect()
}
