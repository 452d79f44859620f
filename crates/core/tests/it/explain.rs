//! Explanations of whole clusters: the groups lose no node, and their reasons are true and minimal.

use std::collections::BTreeMap;

use gpushare_core::explain::{CardDetail, Explanation, Kind, Obstacle, Tally};
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::ledger::Ledger;
use gpushare_core::request::PodAsk;
use gpushare_core::{NodeName, Steps, Why};
use proptest::prelude::*;

use crate::common::{fit, ledger, node, pod};
use crate::search::{
    SomeAsk, SomeCard, add_node, fewer, fits_without, some_ask, some_card, some_pod,
};

fn cluster(nodes: &[Vec<SomeCard>]) -> Ledger {
    let mut books = ledger(&[]);
    for (number, cards) in nodes.iter().enumerate() {
        add_node(&mut books, &format!("n{number:02}"), cards);
    }
    books
}

fn verdicts(books: &Ledger, ask: &PodAsk, nodes: usize) -> BTreeMap<NodeName, Result<(), Why>> {
    let names = (0..nodes).map(|number| node(&format!("n{number:02}")));
    names
        .map(|name| (name.clone(), fit(books, name.as_str(), &pod(9999), ask)))
        .collect()
}

fn explained<'a>(
    verdicts: impl Iterator<Item = (&'a NodeName, &'a Result<(), Why>)>,
) -> Explanation {
    let mut tally = Tally::default();
    for (name, verdict) in verdicts {
        tally.add(name, verdict.clone());
    }
    tally.finish()
}

/// The cards of each node, and what each container of a pod asks for.
fn some_cluster() -> impl Strategy<Value = (Vec<Vec<SomeCard>>, Vec<SomeAsk>)> {
    let nodes = prop::collection::vec(prop::collection::vec(some_card(), 0..4), 1..12);
    (nodes, prop::collection::vec(some_ask(), 1..3))
}

proptest! {
    #[test]
    fn every_node_is_in_one_group_and_the_group_tells_the_node_that_lacks_least(
        (nodes, asks) in some_cluster(), choosy in any::<bool>(),
    ) {
        let (books, ask) = (cluster(&nodes), some_pod(&asks, choosy));
        let verdicts = verdicts(&books, &ask, nodes.len());
        let explanation = explained(verdicts.iter());
        prop_assert_eq!(&explanation, &explained(verdicts.iter().rev()), "in any order of nodes");

        let counted: usize = explanation.groups.iter().map(|group| group.nodes.count).sum();
        prop_assert_eq!(counted + explanation.fitting.count, nodes.len());
        prop_assert!(explanation.fitting.names.iter().all(|name| verdicts[name].is_ok()));
        for group in &explanation.groups {
            let reasons: Vec<Why> = verdicts
                .values()
                .filter_map(|verdict| verdict.as_ref().err())
                .filter(|why| why.kind() == group.why.kind())
                .map(Why::as_said)
                .collect();
            prop_assert_eq!(reasons.len(), group.nodes.count);
            prop_assert!(reasons.contains(&group.why));
            let least = reasons.iter().map(Why::lack).min();
            prop_assert_eq!(least, Some(group.why.lack()));
            prop_assert_eq!(group.same, reasons.iter().all(|why| *why == group.why));
            let lacks = group.nodes.names.iter().map(|name| match &verdicts[name] {
                Err(why) => why.lack(),
                Ok(()) => u64::MAX,
            });
            prop_assert!(lacks.is_sorted(), "those that lack least come first");
        }
    }

    #[test]
    fn on_every_node_of_a_group_the_pod_fits_without_the_stated_obstacles_and_with_none_left_out(
        (nodes, asks) in some_cluster(), choosy in any::<bool>(),
    ) {
        let (books, ask) = (cluster(&nodes), some_pod(&asks, choosy));
        let explanation = explained(verdicts(&books, &ask, nodes.len()).iter());
        for group in explanation.groups {
            for name in &group.nodes.names {
                let name = name.as_str();
                match &group.why {
                    Why::Blocked { by, .. } => {
                        prop_assert!(fits_without(&books, name, &ask, *by));
                        prop_assert!(!fewer(*by).any(|less| fits_without(&books, name, &ask, less)));
                    }
                    Why::TooSmall { .. } => {
                        let everything = gpushare_core::why::Obstacles {
                            room: true,
                            health: true,
                            choice: true,
                        };
                        prop_assert!(!fits_without(&books, name, &ask, everything));
                    }
                    why => prop_assert!(matches!(why, Why::NoCards { .. }), "{why}"),
                }
            }
        }
    }
}

/// The report for a pod that asks for 6 and accepts only T4s.
fn report(nodes: &[Vec<SomeCard>]) -> gpushare_core::explain::Report {
    let (books, ask) = (cluster(nodes), some_pod(&[(1, Some(6), 2)], true));
    let explanation = explained(verdicts(&books, &ask, nodes.len()).iter());
    let steps = Steps::for_request();
    let search = books.search(&ask, &steps);
    explanation.report(&ask, &gpu::dialects(AliyunUnit::GiB), |name| {
        let rooms = books
            .node(name.as_str())
            .map_or(&[][..], |node| node.rooms());
        let detail = |room| CardDetail::new(books.classes(), &search, room);
        rooms.iter().map(detail).collect()
    })
}

#[test]
fn a_report_tells_programs_what_is_missing_where_and_what_would_help() {
    let report = report(&[
        vec![(8, 4, true, true)],
        vec![(8, 3, true, true), (2, 0, true, true)],
        vec![(8, 0, true, false)],
        vec![(8, 0, false, true)],
        vec![(4, 0, true, true)],
        vec![],
    ]);
    assert_eq!(report.nodes, 6);
    assert_eq!(report.fitting, 0);
    assert_eq!(
        report.message,
        "2 nodes: no card has 6 MiB of memory free, the most is 5; \
         1 node: no gpu cards published (is the gpushare node agent running there?); \
         1 node: no card has 6 MiB of memory in all, the most is 4; \
         1 node: the pod's selectors exclude the cards that have room; \
         1 node: the cards that have room are unhealthy"
    );
    let groups = || report.groups.iter();
    let kinds = groups().map(|group| (group.kind, group.obstacles.clone()));
    let kinds: Vec<(Kind, Vec<Obstacle>)> = kinds.collect();
    assert_eq!(
        kinds,
        [
            (Kind::Blocked, vec![Obstacle::Room]),
            (Kind::NoCards, vec![]),
            (Kind::TooSmall, vec![]),
            (Kind::Blocked, vec![Obstacle::Choice]),
            (Kind::Blocked, vec![Obstacle::Health]),
        ]
    );
    let help: Vec<&str> = groups().map(|group| group.help[0].as_str()).collect();
    assert_eq!(
        help,
        [
            "free at least 1 MiB of memory on one card of n01, n00",
            "run the gpushare node agent on n05, if there are cards",
            "ask for at most 4 MiB of memory on each card",
            "remove or loosen gpushare.io/card-models",
            "repair or replace the unhealthy cards of n03",
        ]
    );
    let cards = &report.groups[0].cards[&node("n01")];
    assert_eq!(cards.len(), 2);
    assert_eq!((cards[0].size["memory"], cards[0].free["memory"]), (8, 5));
    assert!(cards[0].healthy && cards[0].accepted);
    assert!(!report.groups[3].cards[&node("n02")][0].accepted);
    let text = serde_json::to_string(&report).expect("JSON");
    let again: gpushare_core::explain::Report = serde_json::from_str(&text).expect("the same");
    assert_eq!(again.message, report.message);
}
